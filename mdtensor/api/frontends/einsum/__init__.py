"""`einsum` and `tensordot`: strings of subscripts, with NumPy's words and results."""
