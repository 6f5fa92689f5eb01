"""Lazy arrays: NumPy expressions that become one kernel when their result is asked for."""
