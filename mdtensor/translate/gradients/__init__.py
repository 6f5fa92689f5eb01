"""Gradients: the adjoints of `md_hom`s, which are `md_hom`s."""
