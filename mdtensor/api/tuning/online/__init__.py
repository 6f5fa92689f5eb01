"""Online tuning: a user's own calls try candidates while they run, within a share of their time."""
