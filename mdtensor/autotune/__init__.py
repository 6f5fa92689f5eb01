"""Tuning: the space of configurations, the search through it, and the store of what was found.

Knows neither kernels nor devices: a search is given `measure(configuration) -> Trial`.
"""
