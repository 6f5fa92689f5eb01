"""The emitters: from a Problem and a Schedule to LoopNests."""
