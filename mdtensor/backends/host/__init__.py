"""Host facilities: the processor, memory pools, and the disk cache of machine code."""
