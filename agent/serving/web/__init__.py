"""What stands between the network and the routes: TLS, passwords, limits, what a client accepts.

A connection passes `listener.py` (so many at a time, and of an address), then `connection_limits.py` (uvicorn's
connection with two deadlines, of which one gives way where there are too many); `addresses.py` says whose it is. A
request passes `auth_middleware.py` (a host name of ours: `allowed_hosts.py`, no body, a password where users are
named: `users.py`, headers), then its route through `answers.py` (how many large answers there are at a time, gzip)
and `content_negotiation.py`. `config.py` reads the file of `--web-config`, `config_file.py` reads it again where it
changes, `tls.py` makes contexts of it. `decaying_counts.py` counts what strangers do.

It must not know what is answered: no groups, no metrics, no pages.
"""
