"""From reductions and scans with any operators to an `md_hom`."""
