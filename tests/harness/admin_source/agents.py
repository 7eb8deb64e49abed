"""An agent in a process of its own: started, asked over HTTP, its CPU time read, stopped."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen


class AgentProcess:
    """`kshadow run` with these options."""

    def __init__(self, name: str, bootstrap_servers: str, options: Sequence[str], workdir: Path) -> None:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{one.getsockname()[1]}"
        self.log = workdir / f"{name}.log"
        command = [sys.executable, "-m", "agent.cli.main", "run", "--bootstrap-server", bootstrap_servers]
        command += ["--listen", self.url.removeprefix("http://"), "--lag-interval", "5s", *options]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self.pid = self._process.pid

    def await_ready(self, timeout_s: float = 120) -> float:
        """How long it took until it was ready, seconds."""
        began = time.monotonic()
        while True:
            try:
                with urlopen(self.url + "/readyz", timeout=5):
                    return time.monotonic() - began
            except (URLError, OSError):
                assert self._process.poll() is None, self.log.read_text()[-4000:]
                assert time.monotonic() - began < timeout_s, self.log.read_text()[-4000:]
                time.sleep(0.2)

    def ask(self, path: str) -> Any:
        """A JSON answer of its API."""
        with urlopen(f"{self.url}/api/v1/{path}", timeout=30) as response:
            return json.load(response)

    def events(self, group: str) -> list[dict[str, Any]]:
        """A group's timeline, findings included."""
        answer = self.ask(f"groups/{quote(group, safe='')}/timeline")
        events: list[dict[str, Any]] = answer["events"] if isinstance(answer, dict) else answer
        return events

    def cpu_s(self) -> float:
        """CPU seconds of the process and the one that asks for it."""
        ticks = 0
        for pid in (self.pid, *_children(self.pid)):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except FileNotFoundError:
                continue
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it in order."""
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()


def _children(pid: int) -> list[int]:
    try:
        return [int(it) for it in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
