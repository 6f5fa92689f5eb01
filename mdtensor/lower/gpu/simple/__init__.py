"""The kind `simple`: one accumulator or one point after the other."""
