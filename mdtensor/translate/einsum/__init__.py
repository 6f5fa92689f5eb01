"""Front end for einsum strings: index spaces, views and contractions."""
