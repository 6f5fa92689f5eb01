"""Schedules of a problem on any target: ranked candidates, and the search space."""
