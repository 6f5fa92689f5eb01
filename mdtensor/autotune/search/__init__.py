"""Search techniques, and the loop that measures what they propose."""
