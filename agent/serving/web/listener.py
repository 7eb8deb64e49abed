"""The socket that a web server takes connections at: a few at a time, and not too many a second of one address."""

from __future__ import annotations

import errno
import socket
import time
from contextlib import suppress
from typing import Any

from agent.kafka.source.errors import SourceMisconfigured
from agent.serving.web.addresses import network_of
from agent.serving.web.decaying_counts import DecayingCounts

MAX_ACCEPTED = 16
"""Connections that are taken at a time. asyncio would take all that there are, and read none before: who comes last
of a thousand had to wait for all of them, or to give way to them."""
MAX_HANDSHAKES = 128
"""Connections that were taken and are not HTTP's yet, which with TLS is for as long as the client's handshake takes.
With more, the oldest ends."""
MAX_BURST = 500
"""New connections of an address that are taken at once; besides, one each `REST_S`. Further ones are closed before
anything is done for them: else who connects again and again, as fast as possible, would take up the time in which
others are let in."""
REST_S = 0.01
MAX_BURST_IN_CROWD = 32
"""The same while all addresses together connect more often than one may."""
REST_IN_CROWD_S = 0.5
MAX_REFUSED = 256
"""Connections that are closed so at a time."""
_ALL = object()


class PacedListener(socket.socket):
    """A listening socket of asyncio's, which calls `accept` until that would block."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._accepted = self._refused = 0
        self._is_out_of_room = False
        # In the order in which they came, by file descriptor.
        self._handshaking: dict[int, socket.socket] = {}
        self._made, self._made_in_crowd = DecayingCounts(REST_S), DecayingCounts(REST_IN_CROWD_S)

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection; `BlockingIOError` where it is others' turn."""
        try:
            if self._accepted == MAX_ACCEPTED or self._is_out_of_room:
                raise BlockingIOError
            connection, address = self._accept_moderate()
        except BlockingIOError:
            self._accepted = self._refused = 0
            self._is_out_of_room = False
            raise
        except OSError:
            # Of file descriptors, say. asyncio tries again after a second, but first goes on for its whole backlog.
            self._is_out_of_room = True
            raise
        self._accepted += 1
        self._handshaking.pop(connection.fileno(), None)
        self._handshaking[connection.fileno()] = connection
        while len(self._handshaking) > MAX_HANDSHAKES:
            with suppress(OSError):
                # Its transport finds that out, and closes it; one that is closed already is not connected.
                self._handshaking.pop(next(iter(self._handshaking))).shutdown(socket.SHUT_RDWR)
        return connection, address

    def _accept_moderate(self) -> tuple[socket.socket, Any]:
        while self._refused < MAX_REFUSED:
            connection, address = super().accept()
            if self._is_moderate(network_of(address), time.monotonic()):
                return connection, address
            connection.close()
            self._refused += 1
        raise BlockingIOError

    def _is_moderate(self, network: str, now: float) -> bool:
        is_crowd = self._made.count(_ALL, now) >= MAX_BURST
        if self._made.count(network, now) >= MAX_BURST or (
            is_crowd and self._made_in_crowd.count(network, now) >= MAX_BURST_IN_CROWD
        ):
            return False
        for key in (network, _ALL):
            self._made.add(key, now)
        if is_crowd:
            self._made_in_crowd.add(network, now)
        return True

    def hand_over(self, connection: socket.socket) -> None:
        """A connection is HTTP's from now on."""
        self._handshaking.pop(connection.fileno(), None)


def listening_socket(host: str, port: int) -> PacedListener:
    """As `bound_socket`, and nobody else can have that address any more: connections wait there for the server.

    Raises `SourceMisconfigured`.
    """
    try:
        listener = bound_socket(host, port)
        try:
            # Several that want one address may all bind it, until the first of them listens.
            listener.listen()
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise SourceMisconfigured(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    return listener


def bound_socket(host: str, port: int) -> PacedListener:
    """A socket at that address; `::` is every one of both families, or of IPv4 alone where the kernel has no other.

    Port 0 is any free one. Raises `OSError`.
    """
    try:
        return _bound_socket(host, port)
    except OSError as error:
        if host == "::" and error.errno == errno.EAFNOSUPPORT:
            return _bound_socket("0.0.0.0", port)
        raise


def _bound_socket(host: str, port: int) -> PacedListener:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends without delay (40 ms for each answer otherwise) only what says that it is TCP.
    listener = PacedListener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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
