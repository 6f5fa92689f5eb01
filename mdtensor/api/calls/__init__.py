"""The path of every call: the call cache, the computation behind it, and shape families."""
