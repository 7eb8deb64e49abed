"""Whoever has a right to be answered, and how long that takes."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException

from agent.tools.embedded import ProcessReaper
from tests import ROOT

TIMEOUT_S = 1.0
"""A kubelet's own."""
SCRAPE_TIMEOUT_S = 10.0
"""Prometheus' own."""


@dataclass
class Answers:
    """How long each took, seconds, and what came where it was not 200."""

    taken_s: list[float] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)

    @property
    def good(self) -> int:
        """How many were 200, in time."""
        return len(self.taken_s) - self.others.total()

    @property
    def median_s(self) -> float:
        """Of all."""
        return statistics.median(self.taken_s)

    def ask(self, port: int, path: str, timeout_s: float, headers: dict[str, str] | None = None) -> None:
        """Once, on a connection of its own, as kubelets do."""
        began = time.monotonic()
        connection = HTTPConnection("127.0.0.1", port, timeout=timeout_s)
        try:
            connection.request("GET", path, headers=headers or {})
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                self.others[str(answer.status)] += 1
            elif time.monotonic() - began > timeout_s:
                self.others["late"] += 1
        except (OSError, HTTPException) as error:
            self.others[type(error).__name__] += 1
        finally:
            connection.close()
            self.taken_s.append(time.monotonic() - began)


@contextmanager
def besieged(port: int, attacks: Sequence[tuple[str, int, int]]) -> Iterator[None]:
    """While so many strangers of these kinds, from so many addresses, are there; each has been let in once."""
    with ExitStack() as stack:
        reaper = ProcessReaper()
        stack.callback(reaper.close)
        begun = []
        for attack in attacks:
            command = [sys.executable, "-m", "tests.harness.siege.attackers"]
            kind, count, addresses = attack
            process = subprocess.Popen(
                [*command, kind, str(count), str(port), str(addresses)], cwd=ROOT, stdout=subprocess.PIPE
            )
            assert process.stdout is not None
            stack.callback(process.stdout.close)
            reaper.watch(process.pid)
            stack.callback(reaper.release, process.pid)
            stack.callback(process.wait)
            stack.callback(process.kill)
            begun.append(process)
        for process in begun:
            assert process.stdout is not None
            assert process.stdout.readline()
        yield


def probes(port: int, seconds: float) -> dict[str, Answers]:
    """Liveness and readiness in turns, two a second, and a scrape every two seconds."""
    found = {"/healthz": Answers(), "/readyz": Answers(), "/metrics": Answers()}
    began = time.monotonic()
    for turn in range(round(seconds * 2)):
        time.sleep(max(0.0, began + turn / 2 - time.monotonic()))
        path = ("/healthz", "/readyz")[turn % 2]
        found[path].ask(port, path, TIMEOUT_S)
        if turn % 4 == 0:
            found["/metrics"].ask(port, "/metrics", SCRAPE_TIMEOUT_S)
    return found


def rightful(port: int, user: str, password: str, seconds: float) -> dict[str, Answers]:
    """Who knows a password, once a second; and a probe each time."""
    authorization = {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}
    found = {"right password": Answers(), "/healthz": Answers()}
    began = time.monotonic()
    for turn in range(round(seconds)):
        time.sleep(max(0.0, began + turn - time.monotonic()))
        found["right password"].ask(port, "/api/v1/status", 3.0, authorization)
        found["/healthz"].ask(port, "/healthz", TIMEOUT_S)
    return found
