"""Shared parts of all GPU kinds of schedules: blocks, resources, costs, device limits."""
