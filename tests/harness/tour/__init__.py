"""Every command, as a new user drives it."""
