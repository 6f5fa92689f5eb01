"""The kinds of prefix sums: within groups, and among groups by decoupled look-back."""
