"""Rules that every schedule keeps, whatever the device: a file for what each is about."""
