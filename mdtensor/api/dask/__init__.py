"""Dask arrays as operands: a graph with a task for each part."""
