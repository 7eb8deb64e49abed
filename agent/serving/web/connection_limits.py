"""Connections with limits: nobody holds one by sending or reading slowly, and nobody keeps others out.

Two deadlines: a request must have come in whole, and an answer must have been taken in whole. uvicorn has neither;
what it does have (for idle connections) stays as it is.

And one bound. What a connection asks is known only once it has asked, so none is refused as it comes: where there are
too many, one of the address that has most gives way. So a probe is let in however many others are held.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import chain
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from agent.serving.web.addresses import network_of
from agent.serving.web.config_file import WebConfigFile
from agent.serving.web.listener import PacedListener
from agent.serving.web.tls import alternative_names

REQUEST_TIMEOUT_S = 10.0
"""How long a request may take to come in, from when the connection was made or its first byte came."""
ANSWER_TIMEOUT_S = 60.0
"""How long an answer may take, from the request to its last byte taken by the client."""
KEEP_ALIVE_S = 75
"""How long a connection may be idle between requests: longer than scrapes are apart, which saves TLS's beginning."""
MAX_REQUEST_BYTES = 1 << 17
"""Of a request's line and headers: enough for the longest group name there may be (32,767 bytes), each as %XX."""
MAX_REQUEST_LINES = 500
"""Lines of a request, and of others that are sent before it is answered: each header costs more than its bytes."""
MAX_CONNECTIONS = 256
"""With more, one gives way: of those of the address that has most, the one that has waited longest for a request."""
RESERVED_CONNECTIONS = 64
"""For those whose request has yet to come: with fewer of them, the one gives way whose answer began first. More than
are taken before the first of them is read (`listener.MAX_ACCEPTED`, a few times)."""
CONNECTION = "kshadow.connection"
"""Where a request's state has its `LimitedConnection`."""


class OpenConnections:
    """The connections of one server, in the order in which they give way. For one event loop."""

    def __init__(self) -> None:
        # Dicts for their order: who came last is last.
        self._waiting: dict[LimitedConnection, None] = {}
        self._answered: dict[LimitedConnection, None] = {}
        self._by_network: Counter[str] = Counter()

    def add(self, connection: LimitedConnection) -> None:
        """One that was made. Another may give way to it."""
        self._waiting[connection] = None
        self._by_network[connection.network] += 1
        while self._by_network.total() > MAX_CONNECTIONS:
            self._next_to_go().give_way()

    def _next_to_go(self) -> LimitedConnection:
        most = max(self._by_network.values())
        order = (self._waiting, self._answered)
        if len(self._waiting) <= RESERVED_CONNECTIONS:
            order = (self._answered, self._waiting)
        return next(it for it in chain(*order) if self._by_network[it.network] == most)

    def wait(self, connection: LimitedConnection) -> None:
        """No request of it is being answered from now on."""
        if self._answered.pop(connection, self) is None:
            self._waiting[connection] = None

    def answer(self, connection: LimitedConnection) -> None:
        """A request of it is being answered from now on."""
        if self._waiting.pop(connection, self) is None:
            self._answered[connection] = None

    def remove(self, connection: LimitedConnection) -> None:
        """It is over, if it was there at all."""
        if self._waiting.pop(connection, self) is None or self._answered.pop(connection, self) is None:
            self._by_network[connection.network] -= 1
            if not self._by_network[connection.network]:
                del self._by_network[connection.network]


class LimitedConnection(H11Protocol):
    """One connection, which ends where a request or an answer takes too long. Each server has a class of its own."""

    files: WebConfigFile | None
    listener: PacedListener
    open_connections: OpenConnections
    request_s, answer_s = REQUEST_TIMEOUT_S, ANSWER_TIMEOUT_S

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.app_state = {**self.app_state, CONNECTION: self}
        self._is_between_requests = False
        """Whether an answer is handed over and no byte of another request has come."""
        self.network = ""
        """Whose it is, as far as its address tells."""
        self._lines = 0
        """That have come since the last request was there."""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there, and with TLS its certificate, if it gave one, is verified."""
        super().connection_made(transport)
        self.listener.hand_over(transport.get_extra_info("socket"))
        self.network = network_of(self.client)
        if not self._is_admitted(transport):
            self.give_way()
            return
        self._start_timer(self.request_s)
        self.open_connections.add(self)

    def give_way(self) -> None:
        """End at once: closing would wait for the client to take what is left."""
        self.open_connections.remove(self)
        self.transport.abort()

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
            self._start_timer(self.request_s)
        self._lines += data.count(b"\n")
        if self._lines > MAX_REQUEST_LINES:
            self.give_way()
            return
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client went, or was sent away."""
        self.open_connections.remove(self)
        self._cancel_timer()
        super().connection_lost(exc)
        # What refers to it, or it would stay in memory until its deadline is over or Python looks for cycles.
        self._unset_keepalive_if_required()
        self.app_state.clear()
        self.scope = self.cycle = None  # type: ignore[assignment]

    def answer_begins(self) -> None:
        """A request is there, and is being answered."""
        self._is_between_requests = False
        self._lines = 0
        self.open_connections.answer(self)
        self._start_timer(self.answer_s)

    def answer_ends(self) -> None:
        """All of the answer is handed to the transport, which may still hold the last of it: so the limit stays."""
        self._is_between_requests = True
        self.open_connections.wait(self)

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: any client may ask for WebSockets, and what uvicorn advises, to install them, changes nothing
        here. The request is answered as one without it."""

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
            self.give_way()


def server_limits(listener: PacedListener, files: WebConfigFile | None) -> type[LimitedConnection]:
    """The connections of a server that takes them at a listener."""
    made = {"files": files, "listener": listener, "open_connections": OpenConnections()}
    return type("Connection", (LimitedConnection,), made)
