"""OpenCL devices: programs compiled by PyOpenCL, launched on NumPy's arrays."""
