"""The kinds of problems without a reduction: pointwise tiles, and 2.5-D streaming by planes."""
