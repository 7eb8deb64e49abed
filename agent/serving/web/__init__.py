"""What stands between the network and the routes: TLS, passwords, limits, what a client accepts.

A request passes `connection_limits.py` (uvicorn's connection with two deadlines), `auth_middleware.py` (no body, a
password where users are named: `users.py`, headers), then its route through `answers.py` (how many large answers
there are at a time, gzip) and `content_negotiation.py`. `config.py` reads the file of `--web-config`,
`config_file.py` reads it again where it changes, `tls.py` makes contexts of it, `listener.py` the socket.

It must not know what is answered: no groups, no metrics, no pages.
"""
