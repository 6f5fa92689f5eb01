"""From programs to programs: on batches and on other operands; what their steps depend on."""
