"""Plans: calls on arrays of fixed shapes and types, prepared once."""
