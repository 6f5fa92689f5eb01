"""CUDA devices: programs compiled by NVRTC, launched on CuPy's arrays."""
