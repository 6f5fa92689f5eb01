"""What a kernel does, as values: element types, values, statements, and the LoopNest of them."""
