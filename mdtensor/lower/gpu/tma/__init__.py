"""The kind `bulk`: tiles that the tensor memory accelerator copies and warp groups multiply."""
