"""From a LoopNest to the source text of a kernel."""
