"""LLVM IR: the second renderer of LoopNests, beside the one of C-like languages."""
