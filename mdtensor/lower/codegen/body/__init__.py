"""The body of a register tile: its loads, its computation, its stores."""
