"""A program at a port that is none of those that are expected there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
