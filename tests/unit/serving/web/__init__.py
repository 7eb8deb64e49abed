"""TLS, passwords, limits, and what clients accept, over real sockets."""
