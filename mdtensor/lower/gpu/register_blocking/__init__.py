"""The kind of reductions with register blocking: accumulators stay in registers."""
