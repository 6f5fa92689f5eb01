"""Schedules worth considering on a GPU, by the kind of kernel that they ask for."""
