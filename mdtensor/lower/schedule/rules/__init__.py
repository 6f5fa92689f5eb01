"""The validity rules of schedules, one file per topic."""
