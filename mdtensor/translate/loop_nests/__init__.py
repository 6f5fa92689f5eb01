"""Loop nests traced from a function's source: reads, stores and loops."""
