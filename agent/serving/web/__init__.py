"""What stands between the network and the routes: TLS, passwords, limits, what a client accepts."""
