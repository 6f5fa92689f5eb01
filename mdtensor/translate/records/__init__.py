"""Records: elements with fields, as columns of numbers."""
