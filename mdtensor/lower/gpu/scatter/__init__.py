"""The kinds `scatter` and `scatter_together`: results that go to a computed index."""
