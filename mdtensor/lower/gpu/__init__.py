"""Schedules of GPUs: a folder for each kind, and their registry."""
