"""A line to the API server that can be cut: what stands between the agent and it, as load balancers do."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class CuttableLine:
    """Forwards connections of loopback to a port. A context."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._ends: set[socket.socket] = set()
        self._silent: set[socket.socket] = set()
        self._refuses = False
        self.cuts = 0

    def __enter__(self) -> CuttableLine:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """End all connections at once."""
        self.cuts += 1
        with self._lock:
            ends, self._ends = self._ends, set()
        for it in ends:
            with suppress(OSError):
                it.shutdown(socket.SHUT_RDWR)

    def refuse(self, refuses: bool) -> None:
        """Take no new ones, or take them again."""
        self._refuses = refuses

    def silence(self) -> None:
        """Of all that are there nothing comes through any more, and neither end is told."""
        self.cuts += 1
        with self._lock:
            self._silent |= self._ends

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    if self._refuses:
                        raise ConnectionRefusedError
                    far = socket.create_connection(("127.0.0.1", self._target), 5)
                    far.settimeout(None)
                except OSError:
                    near.close()
                    continue
                with self._lock:
                    self._ends |= {near, far}
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._copy, args=(one, other), daemon=True).start()

    def _copy(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                if one not in self._silent:
                    other.sendall(data)
        if one not in self._silent:
            with suppress(OSError):
                other.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._ends -= {one}
        one.close()
