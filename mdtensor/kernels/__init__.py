"""Rendering of LoopNests to the source text of kernels."""
