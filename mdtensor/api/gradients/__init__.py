"""Gradients of calls, and of programs of calls: a tape, and computations of cotangents."""
