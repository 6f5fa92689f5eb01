"""Calls on arrays of frameworks: operators with gradients and batches; axes that have names."""
