"""Schedules of GPUs: candidates, the cost model, and the search space."""
