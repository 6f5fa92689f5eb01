"""Scatters: results at computed indices, such as histograms."""
