"""Register blocking: accumulators stay in registers while tiles of a reduction go by."""
