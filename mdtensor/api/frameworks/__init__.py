"""Calls as operators of machine-learning frameworks: by a text, with gradients and batches."""
