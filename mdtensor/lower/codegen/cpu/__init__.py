"""Emitters for processors: cache tiles, peeled rows, vector shuffles."""
