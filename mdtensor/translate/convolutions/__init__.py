"""From convolutions to `md_hom`s."""
