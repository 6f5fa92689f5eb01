"""The processor of this process, for which llvmlite compiles LLVM IR."""
