"""The registry of all kinds of schedules on a GPU, their ranking, and the search space."""
