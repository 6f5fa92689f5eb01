"""Schedules of GPUs: a folder for each kind, and the registry that the lowering asks."""
