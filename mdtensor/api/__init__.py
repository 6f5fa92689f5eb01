"""What users call; the only folder that sees all others."""
