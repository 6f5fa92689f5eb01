"""The loops and vectors of processors: cache tiles, peeled rows, shuffles."""
