"""What computes the `md_hom`s of a test: generated kernels, or the reference interpreter."""

EXECUTORS = ("kernels", "reference")
