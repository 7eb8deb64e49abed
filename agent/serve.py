"""The web server around the API, until it is told to stop."""

from __future__ import annotations

import logging
import socket

import uvicorn

from agent.http import application
from agent.runtime import Agent
from agent.source.errors import SourceMisconfigured

log = logging.getLogger("kshadow")

GRACE_S = 5
"""How long requests under way may take once a stop was asked for; Kubernetes gives 30 s in all."""


def serve(agent: Agent, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM. Raises `SourceMisconfigured` where the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SourceMisconfigured(f"--listen {host}:{port}: {error.strerror or error}") from error
    config = uvicorn.Config(
        application(agent),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    bound = listener.getsockname()
    log.info("serving http://%s:%d/metrics", host, bound[1])
    with listener:
        uvicorn.Server(config).run(sockets=[listener])
