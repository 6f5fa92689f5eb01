"""The store of tuning results on disk: rows of facts, in SQLite or in files."""
