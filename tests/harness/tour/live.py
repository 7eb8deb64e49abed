"""`kshadow demo --keep`, as a user starts it, for as long as the tour is on it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.unit.cli.running import spawn

UP = re.compile(r"Still up: broker (\S+), agent (\S+)/metrics")
MINUTES = 10


@contextmanager
def demo(log: Path) -> Iterator[tuple[str, str]]:
    """The broker's address and the agent's, once its script was played. What it prints goes to `log`."""
    with log.open("wb") as file:
        process = spawn("demo", "--keep", "--listen", "127.0.0.1:0", stdout=file, stderr=subprocess.STDOUT)
        try:
            yield _up(process, log)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _up(process: subprocess.Popen[bytes], log: Path) -> tuple[str, str]:
    deadline = time.monotonic() + MINUTES * 60
    while time.monotonic() < deadline and process.poll() is None:
        if found := UP.search(log.read_text(encoding="utf-8", errors="replace")):
            return found[1], found[2]
        time.sleep(0.5)
    print(log.read_text(encoding="utf-8", errors="replace"), file=sys.stderr)
    raise RuntimeError(f"the demo did not come up: exit code {process.poll()}")
