"""Arrays as callers hand them over: operands of every library, and the device that they lie on."""
