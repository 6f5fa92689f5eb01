"""Tuning: candidates are searched for, run in worker processes, checked, and timed."""
