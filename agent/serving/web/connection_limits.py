"""Connections with limits: nobody holds one, or what it costs, by sending or reading slowly.

Two deadlines: a request must have come in whole, and an answer must have been taken in whole. uvicorn has neither;
what it does have (for idle connections) stays as it is.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from agent.serving.web.config_file import WebConfigFile
from agent.serving.web.tls import alternative_names

REQUEST_TIMEOUT_S = 10.0
"""How long a request may take to come in, from when the connection was made or its first byte came."""
ANSWER_TIMEOUT_S = 60.0
"""How long an answer may take, from the request to its last byte taken by the client."""
KEEP_ALIVE_S = 75
"""How long a connection may be idle between requests: longer than scrapes are apart, which saves TLS's beginning."""
MAX_REQUEST_BYTES = 1 << 17
"""Of a request's line and headers: enough for the longest group name there may be (32,767 bytes), each as %XX."""
MAX_CONNECTIONS = 256
"""With as many, one that is not being answered gives way to one that comes: the one that has waited longest. So who
holds connections keeps no probe and no scrape out. Where all are being answered, requests are answered 503."""
MAX_SOCKETS = 512
"""With more than that, further ones are closed as they come."""
CONNECTION = "kshadow.connection"
"""Where a request's state has its `LimitedConnection`."""


class LimitedConnection(H11Protocol):
    """One connection, which ends where a request or an answer takes too long."""

    files: WebConfigFile | None = None
    request_s, answer_s = REQUEST_TIMEOUT_S, ANSWER_TIMEOUT_S

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.app_state = {**self.app_state, CONNECTION: self}
        self._is_between_requests = False
        """Whether an answer is handed over and no byte of another request has come."""
        self._waits_since: float | None = None
        """Since when it has not been answered, by the loop's clock; None while it is, and once it was sent away."""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there, and with TLS its certificate, if it gave one, is verified."""
        super().connection_made(transport)
        if len(self.connections) > MAX_SOCKETS or not self._is_admitted(transport):
            transport.abort()
            return
        if len(self.connections) >= MAX_CONNECTIONS:
            self._send_one_away()
        self._waits_since = self.loop.time()
        self._start_timer(self.request_s)

    def _send_one_away(self) -> None:
        waiting = [it for it in self.connections if isinstance(it, LimitedConnection) and it._waits_since is not None]
        longest = min(waiting, key=lambda it: it._waits_since or 0.0, default=None)
        if longest is not None:
            longest._waits_since = None
            longest.transport.abort()

    def _is_admitted(self, transport: asyncio.Transport) -> bool:
        tls = self.files.current().tls if self.files is not None else None
        certificate = transport.get_extra_info("peercert")
        if tls is None or not tls.client_allowed_sans or not certificate:
            return True
        return not tls.client_allowed_sans.isdisjoint(alternative_names(certificate))

    def data_received(self, data: bytes) -> None:
        """The client sent some of a request."""
        if self._is_between_requests:
            self._is_between_requests = False
            self._waits_since = self.loop.time()
            self._start_timer(self.request_s)
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client went, or was sent away."""
        self._cancel_timer()
        super().connection_lost(exc)

    def answer_begins(self) -> None:
        """A request is there, and is being answered."""
        self._is_between_requests = False
        self._waits_since = None
        self._start_timer(self.answer_s)

    def answer_ends(self) -> None:
        """All of the answer is handed to the transport, which may still hold the last of it: so the limit stays."""
        self._is_between_requests = True
        self._waits_since = self.loop.time()

    def _start_timer(self, seconds: float) -> None:
        self._cancel_timer()
        self._timer = self.loop.call_later(seconds, self._on_timeout)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        self._timer = None
        if not self._is_between_requests or self.transport.get_write_buffer_size():
            # Closing would wait for the client to take what is left.
            self.transport.abort()
