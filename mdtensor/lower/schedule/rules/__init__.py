"""The constraints that every schedule keeps, a file for what each is about."""
