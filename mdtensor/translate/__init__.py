"""From what a user writes to one formal object, an `md_hom` instance (MDHom)."""
