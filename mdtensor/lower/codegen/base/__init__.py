"""What all emitters share: the frame of a tile, layouts, addresses, values."""
