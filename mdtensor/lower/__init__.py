"""From an MDHom, a Schedule and a Target to a LoopNest: one path for every computation."""
