"""The kind `matrices`: products that warps multiply on tensor cores (mma)."""
