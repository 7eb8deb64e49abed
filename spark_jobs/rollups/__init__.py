"""History events → rollups: one reducer, in batch and in a stream."""
