"""Raw records → history events."""
