"""Client processes: started under names of their own, told what to do, killed, frozen, and all gone at the end.

Owns processes and the threads that read what they say into the ledger. Each client runs in a session of its own;
a `ProcessReaper` ends them if we die.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from agent.tools.embedded import Jars, ProcessReaper
from agent.tools.embedded.java import java_command
from tests.harness.rig.ledger import Ledger

_CLIENT = Path(__file__).with_name("client.py")


class Client:
    """One process. `name` is its client id."""

    def __init__(
        self, name: str, group: str | None, process: subprocess.Popen[str], leash: ProcessReaper, *, java: bool
    ) -> None:
        self.name, self.group, self.java = name, group, java
        self._process, self._leash = process, leash
        self._frozen = False

    @property
    def runs(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def output(self) -> IO[str]:
        """What it says; to be closed by who reads it."""
        assert self._process.stdout is not None
        return self._process.stdout

    def tell(self, do: str, **more: Any) -> None:
        """A command of `client.py`; nothing happens if the client is gone."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError, ValueError):
                self._process.stdin.write(json.dumps({"do": do, **more}) + "\n")
                self._process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        if self.runs:
            self._process.send_signal(number)
        self._frozen = number == signal.SIGSTOP or (self._frozen and number != signal.SIGCONT)

    def close(self) -> None:
        """Ask it to close in order; not waited for."""
        if self.java:
            self.signal(signal.SIGTERM)
        else:
            self.tell("close")

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.signal(signal.SIGKILL)
        self.wait(10)

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; whether it came."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self._leash.release(self._process.pid)
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        return True


class Fleet:
    """Every client of one broker; usable from several threads."""

    def __init__(self, bootstrap: str, ledger: Ledger, directory: Path) -> None:
        self.bootstrap = bootstrap
        self._ledger = ledger
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._leash = ProcessReaper()
        self._clients: list[Client] = []
        self._listeners: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False

    def python(self, role: str, name: str, group: str | None = None, **task: Any) -> Client:
        """A process of `client.py`."""
        conf = {"bootstrap.servers": self.bootstrap, "client.id": name, "log_level": 0, **task.pop("conf", {})}
        text = json.dumps({"role": role, "conf": conf, **task})
        return self.talking(name, group, [sys.executable, str(_CLIENT), text])

    def talking(self, name: str, group: str | None, command: list[str]) -> Client:
        """A process that takes the words of `client.py` and says its lines, whatever its library."""
        client = self._start(name, group, command)
        listener = threading.Thread(target=self._listen, args=(client,), daemon=True)
        listener.start()
        self._listeners.append(listener)
        return client

    def java(self, name: str, group: str, jars: Jars, main_class: str, arguments: Sequence[str]) -> Client:
        """A Java client; SIGTERM closes it in order. What it says is not for the ledger."""
        command = java_command(jars.classpath, main_class, *arguments, options=["-Xmx96m"])
        return self._start(name, group, command, java=True)

    def close(self, timeout_s: float = 15.0) -> None:
        """End what still runs: in order if it manages, else not."""
        with self._lock:
            self._closed = True
            running = [client for client in self._clients if client.runs]
        for client in running:
            client.signal(signal.SIGCONT)
            client.close()
        deadline = time.monotonic() + timeout_s
        for client in running:
            if not client.wait(max(0.1, deadline - time.monotonic())):
                client.kill()
        for client in self._clients:
            client.wait(0)
        for listener in self._listeners:
            listener.join(5)
        self._leash.close()

    def _start(self, name: str, group: str | None, command: list[str], *, java: bool = False) -> Client:
        environ: Mapping[str, str] = {**os.environ, "PYTHONUNBUFFERED": "1"}
        with self._lock, (self.directory / f"{name}.err").open("ab") as errors:
            if self._closed:
                raise RuntimeError("the fleet is closed")
            process = subprocess.Popen(
                command,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL if java else subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                text=True,
            )
            self._leash.watch(process.pid)
            client = Client(name, group, process, self._leash, java=java)
            self._clients.append(client)
        return client

    def _listen(self, client: Client) -> None:
        with client.output() as lines:
            for line in lines:
                with contextlib.suppress(ValueError):  # killed in the middle of a line
                    said = json.loads(line)
                    self._ledger.write({**said, "group": client.group, "client": client.name})
