"""Reductions split among thread blocks, combined by the last block or by a cluster."""
