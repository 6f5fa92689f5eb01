"""The lowering: from an MDHom, a Schedule and a Target to LoopNests."""
