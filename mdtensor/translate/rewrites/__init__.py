"""From an `md_hom` to others that compute the same: chains, flags, mirrored scans."""
