"""The kinds of schedules on a GPU: their registry, their ranking, and the search space."""
