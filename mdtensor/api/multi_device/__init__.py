"""Calls over several devices of one host: each step cut along one dim, a share for each device."""
