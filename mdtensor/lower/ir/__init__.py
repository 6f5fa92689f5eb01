"""The loop IR: index expressions, values, statements, and the LoopNest made of them."""
