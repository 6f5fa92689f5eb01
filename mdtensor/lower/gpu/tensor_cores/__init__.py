"""The kind `matrices`: matrix products of warps on tensor cores (mma)."""
