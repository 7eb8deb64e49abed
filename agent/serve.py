"""The web server around the API: until it is told to stop, or beside other work."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from agent.http import Answering, application
from agent.source.errors import SourceMisconfigured

log = logging.getLogger("kshadow")

GRACE_S = 5
"""How long requests under way may take once a stop was asked for; Kubernetes gives 30 s in all."""


def serve(agent: Answering, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM. Raises `SourceMisconfigured` where the address cannot be had."""
    with _listener(host, port) as listener:
        log.info("serving http://%s:%d/metrics", host, listener.getsockname()[1])
        _server(agent).run(sockets=[listener])


@contextmanager
def serving(agent: Answering, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve in a thread for as long as the block runs; gives the URL. Port 0 is any free one."""
    with _listener(host, port) as listener:
        server = _server(agent)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="http", daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            # The socket is bound but does not listen before that: a request would be refused.
            time.sleep(0.01)
        try:
            yield f"http://{host}:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(GRACE_S + 1)


def _server(agent: Answering) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            application(agent),
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
    )


@contextmanager
def _listener(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise SourceMisconfigured(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        yield listener
