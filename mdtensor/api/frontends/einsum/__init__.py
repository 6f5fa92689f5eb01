"""`einsum` and `tensordot`: strings of subscripts, with NumPy's signatures and results."""
