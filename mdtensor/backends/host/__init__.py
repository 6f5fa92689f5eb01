"""The host process: its processor, its memory, and the machine code that it keeps."""
