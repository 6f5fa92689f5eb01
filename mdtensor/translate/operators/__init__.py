"""Combine operators as users say them, and what is asked of them."""
