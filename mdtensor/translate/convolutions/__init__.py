"""Front end for convolutions."""
