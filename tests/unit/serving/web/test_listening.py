"""Which addresses are listened on."""

from __future__ import annotations

import errno
import os
import resource
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from click import UsageError

from agent.cli.data_source import source_errors_reported
from agent.kafka.source.errors import SourceMisconfigured
from agent.serving.server import WebServer
from agent.serving.web.listener import PacedListener, listening_socket
from tests.unit.serving.routes.replayed import Replayed


def _answers(server: WebServer, host: str) -> bool:
    try:
        return httpx.get(f"http://{host}:{urlsplit(server.url).port}/healthz").status_code == 200
    except httpx.ConnectError:
        return False


@pytest.mark.skipif(not os.path.exists("/proc/net/if_inet6"), reason="this machine has no IPv6")
def test_two_colons_are_every_address_of_both_families() -> None:
    server = WebServer(Replayed([]), "::").start()
    try:
        assert server.url.startswith("http://[::]:")
        assert [_answers(server, it) for it in ("127.0.0.1", "[::1]")] == [True, True]
    finally:
        server.stop()


def test_without_ipv6_they_are_those_of_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel started with ipv6.disable=1, which cannot be had for a test."""

    class SocketOfIPv4(PacedListener):
        def __init__(self, family: int, *others: Any, **named: Any) -> None:
            if family == socket.AF_INET6:
                raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
            super().__init__(family, *others, **named)

    monkeypatch.setattr("agent.serving.web.listener.PacedListener", SocketOfIPv4)
    server = WebServer(Replayed([]), "::").start()
    try:
        assert _answers(server, "127.0.0.1")
    finally:
        server.stop()
    with pytest.raises(SourceMisconfigured, match="cannot listen on ::1:0: Address family not supported"):
        WebServer(Replayed([]), "::1")


def test_where_no_file_may_be_opened_asyncio_is_told_once() -> None:
    """It would call again until that would block, thousands of times, log each and try again for each."""
    most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with listening_socket("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(False)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            for _ in range(2):
                with pytest.raises(OSError, match="Too many open files"):
                    listener.accept()
                with pytest.raises(BlockingIOError):
                    listener.accept()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        listener.accept()[0].close()


def test_who_comes_second_learns_it_at_once() -> None:
    """Two that are started together; with SO_REUSEADDR both may bind the address until one of them listens."""
    with listening_socket("127.0.0.1", 0) as first:
        host, port = first.getsockname()
        with pytest.raises(SourceMisconfigured, match=f"cannot listen on {host}:{port}: Address already in use"):
            listening_socket(host, port)


def test_an_address_that_may_not_be_listened_on_is_no_file_to_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The advice was to run kshadow as a user who may read it."""

    def refused(*_: object) -> PacedListener:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("agent.serving.web.listener.bound_socket", refused)
    with pytest.raises(UsageError) as told, source_errors_reported():
        listening_socket("127.0.0.1", 80)
    assert str(told.value) == "cannot listen on 127.0.0.1:80: Permission denied"
