"""Passes of the lowering, one a file."""
