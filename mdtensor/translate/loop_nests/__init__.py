"""From the source of a function to its loop nest: what is read and stored, in which loops."""
