"""The kind `bulk`: TMA copies of tiles, and wgmma products by warp groups."""
