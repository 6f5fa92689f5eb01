"""Problems without a reduction: pointwise tiles, and 2.5-D streaming with register rotation."""
