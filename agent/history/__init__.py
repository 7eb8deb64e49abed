"""History: what the mirror saw, as the events of schema version 1. Pure; sinks are elsewhere."""
