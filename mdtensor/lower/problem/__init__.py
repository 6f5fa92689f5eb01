"""Problems: MDHoms with flat buffers, linear addresses and numbered dims; and their rewrites."""
