"""Services of clouds on the loopback address."""

from __future__ import annotations

from collections.abc import Callable
from http.server import ThreadingHTTPServer

from tests.answering import Handler


class Answers(ThreadingHTTPServer):
    """A service of a cloud's on the loopback address."""

    daemon_threads = True

    def __init__(self, answer: Callable[[str, str], tuple[str, bytes]]) -> None:
        """`answer`: of a path and a body the type and the body."""
        super().__init__(("127.0.0.1", 0), _Answering)
        self.answer = answer
        self.asked: list[tuple[str, str]] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Answering(Handler):
    server: Answers

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.server.asked.append((self.path, body))
        kind, out = self.server.answer(self.path, body)
        self.say(200, out, {"Content-Type": kind, "Metadata-Flavor": "Google"})

    do_POST = do_GET
