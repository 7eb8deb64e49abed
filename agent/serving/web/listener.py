"""The socket that a web server takes connections at."""

from __future__ import annotations

import errno
import socket


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket at that address; `::` is every one of both families, or of IPv4 alone where the kernel has no other.

    Port 0 is any free one. Raises `OSError`.
    """
    try:
        return _bound_socket(host, port)
    except OSError as error:
        if host == "::" and error.errno == errno.EAFNOSUPPORT:
            return _bound_socket("0.0.0.0", port)
        raise


def _bound_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends without delay (40 ms for each answer otherwise) only what says that it is TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host == "::":
            # Those of IPv4 as well, whatever net.ipv6.bindv6only says.
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener
