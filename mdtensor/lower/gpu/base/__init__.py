"""What the kinds of schedules on a GPU share: blocks, resources, costs, limits of the device."""
