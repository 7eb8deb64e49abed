"""Clients as processes of ours: started under random names, signalled by process id, gone when we are."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from agent.tools.embedded import Jars, ProcessReaper
from agent.tools.embedded.java import find_java, jvm_options

CLIENT = Path(__file__).with_name("client.py")
WORDS = [
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "heron",
    "inlet",
    "juniper",
    "kelp",
    "larch",
    "maple",
    "nectar",
    "otter",
    "pine",
]


class Client:
    """One process, its output in a file."""

    def __init__(self, name: str, command: list[str], output: Path, leash: ProcessReaper) -> None:
        self.name, self.command, self.output, self._leash = name, command, output, leash
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
        leash.watch(self._process.pid)

    def said(self) -> str:
        return self.output.read_text(errors="replace")

    def await_line(self, line: str, timeout_s: float = 90) -> None:
        deadline = time.monotonic() + timeout_s
        while line not in self.said().splitlines():
            assert self._process.poll() is None, f"{self.name} ended: {self.said()[-2000:]}"
            assert time.monotonic() < deadline, f"{self.name} did not say {line!r}: {self.said()[-2000:]}"
            time.sleep(0.02)

    def leave(self) -> None:
        """Ask it to close; not waited for."""
        self._process.send_signal(signal.SIGTERM)

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def crash(self) -> None:
        """SIGKILL, and it is gone."""
        self._process.kill()
        self._wait()

    def finish(self, timeout_s: float = 90) -> None:
        """Wait until it ended by itself, with success."""
        self._wait(timeout_s)
        assert self._process.returncode == 0, f"{self.name}: {self.said()[-2000:]}"

    def _wait(self, timeout_s: float = 90) -> None:
        self._process.wait(timeout_s)
        self._leash.release(self._process.pid)

    @property
    def runs(self) -> bool:
        return self._process.poll() is None


class Fleet:
    """All clients of one broker."""

    def __init__(self, bootstrap: str, directory: Path, dice: random.Random) -> None:
        self.bootstrap, self.directory, self.dice = bootstrap, directory, dice
        directory.mkdir(parents=True, exist_ok=True)
        self.clients: list[Client] = []
        self._leash = ProcessReaper()

    def name(self, what: str) -> str:
        """A name nobody has; some with what names may hold besides letters."""
        dice = self.dice
        return f"{what}{dice.choice('-._')}{dice.choice(WORDS)}{dice.choice('-._')}{dice.randrange(16**5):05x}"

    def python(self, kind: str, *, conf: dict[str, object] | None = None, **task: object) -> Client:
        conf = {"bootstrap.servers": self.bootstrap, "log_level": 3, **(conf or {})}
        text = json.dumps({"kind": kind, "conf": conf, **task})
        return self._start(str(conf.get("client.id", kind)), [sys.executable, str(CLIENT), text])

    def java(self, name: str, jars: Jars, main_class: str, *arguments: str, heap: str = "96m") -> Client:
        options = [*jvm_options(jars.classpath), f"-Xmx{heap}", "-Dlog4j2.level=WARN"]
        return self._start(name, [str(find_java()), *options, "-cp", jars.classpath, main_class, *arguments])

    def _start(self, name: str, command: list[str]) -> Client:
        output = self.directory / f"{len(self.clients):03d}.out"
        client = Client(name, command, output, self._leash)
        self.clients.append(client)
        return client

    def of(self, group: str) -> list[Client]:
        """Those of a group that still run."""
        return [it for it in self.clients if it.runs and any(group in part for part in it.command)]

    def end(self, group: str) -> None:
        """Kill whatever belongs to a group."""
        for client in self.of(group):
            client.crash()

    def close(self) -> None:
        """End what still runs, without ceremony."""
        for client in self.clients:
            with contextlib.suppress(ProcessLookupError):
                if client.runs:
                    client.crash()
        self._leash.close()
        assert not any(client.runs for client in self.clients), f"clients of {os.getpid()} are still there"
