"""Prefix sums: serial, cooperative, and by decoupled look-back."""
