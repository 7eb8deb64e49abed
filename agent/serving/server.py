"""The web server around the API: in a thread of its own, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import uvicorn

from agent.common import clock
from agent.serving.metrics.exporter import Exporter
from agent.serving.queries import ServedQueries
from agent.serving.routes import application
from agent.serving.web.allowed_hosts import AllowedHosts
from agent.serving.web.config_file import WebConfigFile
from agent.serving.web.connection_limits import (
    KEEP_ALIVE_S,
    MAX_REQUEST_BYTES,
    REQUEST_TIMEOUT_S,
    server_limits,
)
from agent.serving.web.listener import PacedListener, listening_socket
from agent.serving.web.tls import reloading_context

log = logging.getLogger("kshadow")

GRACE_S = 5
"""How long requests under way may take once a stop was asked for; Kubernetes gives 30 s in all."""


class WebServer:
    """Serves from `start` to `stop`."""

    def __init__(
        self,
        agent: ServedQueries,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        listener: PacedListener | None = None,
        web_config: WebConfigFile | None = None,
        exporter: Exporter | None = None,
        allowed_hosts: Sequence[str] = (),
        wall_ms: Callable[[], int] = clock.now_ms,
    ) -> None:
        """Takes the address, port 0 for any that is free. `wall_ms`: the page's clock.

        `listener`: what listens there already. `allowed_hosts`: by which names it may be asked. Raises
        `SourceMisconfigured` where it cannot listen.
        """
        self._files = web_config
        tls = self._files is not None and self._files.current().tls is not None
        self._draining = threading.Event()
        app = application(
            agent,
            exporter=exporter,
            files=self._files,
            hosts=AllowedHosts(allowed_hosts, host),
            stopping=self._draining.is_set,
            wall_ms=wall_ms,
        )
        self._listener = listening_socket(host, port) if listener is None else listener
        self._server = _server(app, self._listener, self._files, tls=tls)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if tls else 'http'}://{shown}:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> Self:
        """Serve; where this returns, requests are taken."""
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)
        if not self._server.started:
            raise RuntimeError("the web server did not start")
        log.info("serving %s/metrics", self.url)
        return self

    def drain(self) -> None:
        """From now on /readyz says 503, so that nobody is sent here any more; all else is answered as before."""
        self._draining.set()

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Take no more connections, answer what was asked, and end, after a bit more than `grace_s` at the latest."""
        self.drain()
        self._server.config.timeout_graceful_shutdown = max(1, round(grace_s))
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(grace_s + 1)
        self._listener.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=_Loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        await self._server.serve(sockets=[self._listener])
        for connection in list(self._server.server_state.connections):
            # Its client did not take its answer, and had the time to.
            connection.transport.abort()
        await asyncio.sleep(0)


class _Loop(asyncio.SelectorEventLoop):
    """One whose TLS connections begin and end in time: uvicorn leaves a minute and half a one."""

    async def create_server(self, *arguments: Any, **named: Any) -> asyncio.Server:
        """As asyncio makes it, with our deadlines where there is TLS."""
        if named.get("ssl") is not None:
            named |= {"ssl_handshake_timeout": REQUEST_TIMEOUT_S, "ssl_shutdown_timeout": GRACE_S / 2}
        return await super().create_server(*arguments, **named)


@contextmanager
def serving(
    agent: ServedQueries, host: str = "127.0.0.1", port: int = 0, *, web_config: Path | None = None, **more: Any
) -> Iterator[str]:
    """Serve for as long as the block runs; gives the URL. Port 0 is any free one."""
    files = None if web_config is None else WebConfigFile(web_config)
    server = WebServer(agent, host, port, web_config=files, **more).start()
    try:
        yield server.url
    finally:
        server.stop()


def _server(app: Any, listener: PacedListener, files: WebConfigFile | None, *, tls: bool) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        http=server_limits(listener, files),
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        h11_max_incomplete_event_size=MAX_REQUEST_BYTES,
    )
    config.load()
    if tls and files is not None:
        config.ssl = reloading_context(files.context)
    return uvicorn.Server(config)
