"""The functions that users call: each turns its arguments into a computation."""
