"""Worker processes that may crash, hang or run out of memory without harm to their parent."""
