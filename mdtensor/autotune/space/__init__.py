"""The space of all valid configurations of constrained parameters: counted, indexed, sampled."""
