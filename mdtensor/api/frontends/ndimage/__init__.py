"""Filters with the signatures and the semantics of scipy.ndimage."""
