"""From what is said relative to a point (stencils, filters, slices) to `md_hom`s."""
