"""Devices: their arrays, their compilers and their queues."""
