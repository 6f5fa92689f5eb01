"""The LLVM IR renderer of LoopNests."""
