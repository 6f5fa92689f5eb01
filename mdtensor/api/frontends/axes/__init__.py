"""Functions of arrays along axes: reductions, normalisation, pooling."""
