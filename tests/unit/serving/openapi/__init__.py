"""The API, held to its own description."""
