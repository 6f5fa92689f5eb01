"""Copies between levels of the memory hierarchy: staging, prefetching, cooperative copies."""
