"""From strings of indices to index spaces, views and contractions."""
