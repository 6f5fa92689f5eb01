"""The cost model of processors: register tiles, loads, stores, and traffic between caches."""
