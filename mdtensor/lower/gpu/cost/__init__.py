"""The cost model of GPUs: arithmetic, memory, and what a schedule holds of registers."""
