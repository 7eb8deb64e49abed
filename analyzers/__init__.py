"""What turns group transitions into findings: one file an analyzer. None exists yet."""
