"""Tensor expressions, compiled and tuned for the shape and the device that you have."""

__version__ = "0.1.0"
