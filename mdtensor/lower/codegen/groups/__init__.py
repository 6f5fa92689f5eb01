"""Reductions that several thread blocks share: the last block, or a cluster, combines."""
