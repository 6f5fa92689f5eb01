"""The public API, which may import every other folder."""
