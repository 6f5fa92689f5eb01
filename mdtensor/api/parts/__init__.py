"""Computations in parts: each step cut along its dims, parts combined by the dims' operators."""
