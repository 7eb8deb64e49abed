"""What answers at a port of the loopback address: a web server of a test's, or none of what is expected there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """One that writes nothing on the tests' output."""

    def say(self, status: int, body: bytes = b"", headers: Mapping[str, str] = {}) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nowhere."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 32  # or a dropped connection waits a second


@contextmanager
def web_server(handler: type[Handler]) -> Iterator[str]:
    """Its address, for as long as the block runs."""
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def answering_bytes(answer: bytes, times: int = 1) -> Iterator[int]:
    """Answers whoever asks with these bytes, and hangs up, so many times; gives its port. Then nobody is there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_all() -> None:
            for _ in range(times):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65_536)
                    connection.sendall(answer)

        thread = threading.Thread(target=answer_all, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)
        assert not thread.is_alive(), "it was asked as often as that"
