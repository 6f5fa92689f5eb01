"""From functions of Python to scalar expressions: traced on symbols, or interpreted."""
