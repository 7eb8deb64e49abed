"""Running a command as a process and taking its wall time, CPU and peak memory."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

_TICKS = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """Wall and CPU seconds, and peak resident memory in MB, of one process."""

    wall_s: float
    cpu_s: float
    peak_mb: float


def run(command: Sequence[str], *, env: Mapping[str, str] | None = None, output: Path) -> Cost:
    """Run a command to its end. Raises `RuntimeError` if it fails."""
    began = time.monotonic()
    with output.open("wb") as stream, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=stream, stderr=errors, env={**os.environ, **(env or {})})
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - began
        # wait4 took the exit code that Popen would wait for.
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            said = errors.read().decode(errors="replace")[-500:]
            raise RuntimeError(f"{command[0]} ended with {process.returncode}: {said}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def until_ready(
    command: Sequence[str], url: str, *, env: Mapping[str, str] | None = None, timeout_s: float = 300.0
) -> Cost:
    """Start a command, wait until `url` answers 200, take what it cost so far, and end it."""
    began = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **(env or {})}
    )
    try:
        while not _answers(url):
            if process.poll() is not None:
                raise RuntimeError(f"{command[0]} ended with {process.returncode} before it was ready")
            if time.monotonic() - began > timeout_s:
                raise RuntimeError(f"{command[0]} was not ready after {timeout_s} s")
            time.sleep(0.05)
        wall = time.monotonic() - began
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        status = Path(f"/proc/{process.pid}/status").read_text()
        peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        return Cost(wall, (int(fields[11]) + int(fields[12])) / _TICKS, peak / 1024)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except (URLError, OSError):
        return False
