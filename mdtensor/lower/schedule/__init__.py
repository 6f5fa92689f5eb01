"""Schedules: the tuning parameters of a problem, their tiling, and the machine model."""
