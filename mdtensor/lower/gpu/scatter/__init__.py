"""The kinds `scatter` and `scatter_together`: results at computed indices."""
