"""Reports: one HTML page with pictures of decomposition, roofline and search."""
