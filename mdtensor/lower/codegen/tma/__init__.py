"""Tiles that the tensor memory accelerator (TMA) copies and warp groups multiply (wgmma)."""
