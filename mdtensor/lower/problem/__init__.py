"""From an MDHom to a Problem: flat buffers, linear addresses, numbered dims; and its rewrites."""
