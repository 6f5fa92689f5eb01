"""Default schedules: winners by classes of devices, in files that the package may bring along."""
