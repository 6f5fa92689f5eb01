"""Register blocking: accumulators stay in registers over all tiles of a reduction."""
