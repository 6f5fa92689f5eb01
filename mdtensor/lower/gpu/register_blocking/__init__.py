"""The kind of reductions whose accumulators stay in registers."""
