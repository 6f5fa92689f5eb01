"""Front ends: from users' programs to `md_hom` instances (MDHom), the formal representation."""
