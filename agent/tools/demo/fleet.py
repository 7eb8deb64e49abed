"""The demo's client processes: started, signalled by their ids, and all ended at the end.

Owns processes and their logs; knows nothing of scripts. Ctrl-C reaches only us, and the clients end in order; a
`ProcessReaper` ends them if we die.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from agent.tools.embedded import ProcessReaper

_END_TIMEOUT_S = 5.0


class ClientProcesses:
    """Client processes by client id; usable from several threads."""

    def __init__(self, bootstrap_servers: str, workdir: Path) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._workdir = workdir
        self._reaper = ProcessReaper()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._closed = False
        self._lock = threading.Lock()

    def start(
        self,
        role: str,
        client_id: str,
        *,
        settings: Mapping[str, str],
        topics: Mapping[str, int],
        stall_s: float = 0.0,
    ) -> int:
        """Start a client and give its process id. `role` is consumer or producer, `topics` name: partitions."""
        settings = {"bootstrap.servers": self._bootstrap_servers, "client.id": client_id, **settings}
        command = [sys.executable, "-m", "agent.tools.demo.client", role, f"--stall-s={stall_s}"]
        command += [f"--set={name}={value}" for name, value in settings.items()]
        command += [f"--topic={name}={count}" for name, count in topics.items()]
        # The same modules as ours, also where kshadow is not installed but only on our path.
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        with self._lock:
            if self._closed:
                raise RuntimeError("the fleet is closed")
            process = self._reaper.start(command, self.log_file(client_id), env=environ)
            self._processes[client_id] = process
        return process.pid

    def log_file(self, client_id: str) -> Path:
        """What the client says; restarts append."""
        return self._workdir / f"{client_id}.log"

    def signal(self, client_id: str, number: signal.Signals) -> int:
        """Send a signal to a client and give its process id."""
        process = self._processes[client_id]
        process.send_signal(number)
        return process.pid

    def reap(self, client_id: str) -> None:
        """Wait for the end of a client that was told to end, and kill it if that takes longer than seconds."""
        self._reap(client_id, time.monotonic() + _END_TIMEOUT_S)

    def exit_codes(self, client_ids: set[str]) -> dict[str, int]:
        """Of those of the clients that have ended and were not reaped: nobody told them to."""
        with self._lock:
            running = {client: process for client, process in self._processes.items() if client in client_ids}
        return {client: code for client, process in running.items() if (code := process.poll()) is not None}

    def close(self) -> None:
        """End every client: properly if they manage within seconds, else not."""
        with self._lock:
            self._closed = True
            clients = dict(self._processes)
        for process in clients.values():
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _END_TIMEOUT_S
        for client_id in clients:
            self._reap(client_id, deadline)
        self._reaper.close()

    def _reap(self, client_id: str, deadline: float) -> None:
        with self._lock:
            process = self._processes.pop(client_id, None)
        if process is not None:
            self._reaper.await_end(process, max(0.0, deadline - time.monotonic()))
