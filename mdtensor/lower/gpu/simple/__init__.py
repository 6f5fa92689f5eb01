"""The kind `simple`: no register blocking, one accumulator or point at a time."""
