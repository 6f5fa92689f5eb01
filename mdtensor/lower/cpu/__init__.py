"""Schedules of processors: candidates, the search space, and the division among threads."""
