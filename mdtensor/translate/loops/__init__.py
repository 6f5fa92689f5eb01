"""From loop nests, and from the functions of the DSL, to `md_hom`s."""
