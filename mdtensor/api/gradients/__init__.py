"""Gradients of calls, and of programs of calls: a tape of what they run."""
