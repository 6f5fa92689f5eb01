"""The code generator: from a Problem and a Schedule to LoopNests."""
