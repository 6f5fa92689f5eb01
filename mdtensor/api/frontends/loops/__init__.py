"""Loop nests of Python by `mdh`, and the DSL of `md_hom` and its views."""
