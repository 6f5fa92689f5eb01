"""The evaluator: `md_hom`s computed by NumPy's functions, without a compiler."""
