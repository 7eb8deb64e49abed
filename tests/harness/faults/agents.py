"""Agents as processes, so that they can be killed, stopped and started."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.tools.embedded.ports import free_ports
from tests.waiting import until


class AgentProcess:
    """`kshadow run` with the options given; its log goes to a file."""

    def __init__(self, directory: Path, *options: str, port: int | None = None, name: str = "agent") -> None:
        self.directory = directory
        self.port = port or free_ports(1)[0]
        self.log = directory / f"{name}.log"
        self._options = (*options, "--listen", f"127.0.0.1:{self.port}")
        self.module = "agent.cli.main"
        self.process: subprocess.Popen[bytes] | None = None
        self.exit_codes: list[int] = []

    def start(self, **environment: str) -> AgentProcess:
        """Start it; it is not ready yet."""
        import os

        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self.module, "run", *self._options],
                stdout=log,
                stderr=log,
                env={**os.environ, **environment},
            )
        return self

    def come_up(self, **environment: str) -> None:
        """Start it, and wait until it is ready."""
        self.start(**environment).wait_ready()

    def kill(self) -> None:
        """-9."""
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.exit_codes.append(self.process.wait(30))

    def stop(self, timeout_s: float = 30.0) -> int:
        """As Kubernetes does it; the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(timeout_s)
        self.exit_codes.append(code)
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self.process is not None and self.process.poll() is None

    def get(self, path: str, timeout_s: float = 10.0) -> tuple[int, bytes]:
        """Status and body."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=timeout_s) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except (OSError, http.client.HTTPException) as error:  # the latter: killed as it answers
            return 0, str(error).encode()

    def json(self, path: str) -> Any:
        """A body as JSON."""
        status, body = self.get(path)
        assert status == 200, (path, status, body[:500])
        return json.loads(body)

    def metrics(self) -> Mapping[tuple[str, str], float]:
        """Samples by name and labels as they are written."""
        status, body = self.get("/metrics", 60)
        out: dict[tuple[str, str], float] = {}
        for line in body.decode().splitlines() if status == 200 else ():
            if not line.startswith("#") and line:
                series, _, value = line.rpartition(" ")
                name, _, labels = series.partition("{")
                out[name, labels.rstrip("}")] = float(value)
        return out

    def owned(self) -> float:
        """How many partitions it has, of those that replicas share."""
        return self.metrics().get(("kshadow_partitions_owned", ""), 0.0)

    def groups(self, timeout_s: float) -> set[str]:
        """The groups that a scrape shows."""
        status, body = self.get("/metrics", timeout_s)
        lines = body.decode().splitlines() if status == 200 else []
        return {
            line.partition('group="')[2].partition('"')[0]
            for line in lines
            if line.startswith("kshadow_group_state{")
        }

    def behind(self) -> float:
        """Records to the topic's end, over all partitions; infinite where it does not say."""
        found = [value for (name, _), value in self.metrics().items() if name == "kshadow_topic_behind_records"]
        return sum(found) if found else float("inf")

    def wait_ready(self, timeout_s: float = 60.0) -> float:
        """Until /readyz says so; how long it took, seconds."""
        return until(lambda: self.get("/readyz")[0] == 200, timeout_s, lambda: self.tail())

    def wait_level(self, timeout_s: float = 120.0) -> float:
        """Until there is nothing more to read, seen twice."""

        def level() -> bool:
            if self.get("/readyz")[0] != 200 or self.behind() != 0:
                return False
            time.sleep(1.5)
            return self.behind() == 0

        return until(level, timeout_s, lambda: self.tail())

    def tail(self, lines: int = 30) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
