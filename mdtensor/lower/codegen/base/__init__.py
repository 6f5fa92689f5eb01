"""Shared parts of all emitters: the frame of a tile, layouts, addresses, values."""
