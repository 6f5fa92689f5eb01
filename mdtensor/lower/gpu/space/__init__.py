"""The search space of a problem's schedules on a GPU, as constrained parameters."""
