"""Scatters: results that go to a computed index, such as histograms."""
