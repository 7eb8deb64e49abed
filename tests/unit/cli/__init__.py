"""The commands, as users run them."""
