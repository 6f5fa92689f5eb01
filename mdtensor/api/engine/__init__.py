"""The choice of a kernel for a problem on one device, in tiers: generic, specialised, tuned."""
