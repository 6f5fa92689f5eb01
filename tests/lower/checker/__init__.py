"""An interpreter of LoopNests that checks each access, and that needs no compiler."""
