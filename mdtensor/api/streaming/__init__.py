"""Calls within a memory limit: parts of arrays are read, computed and written in turn."""
