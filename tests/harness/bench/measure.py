"""What a process and its children cost: wall time, CPU, memory. Linux: it reads /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

_TICKS = os.sysconf("SC_CLK_TCK")
_MOST_OF_IT = 0.95
_LOOK_S = 0.05


class Cost(NamedTuple):
    """Of a command that ran to its end: seconds, CPU seconds, peak memory of its largest process in MB."""

    wall_s: float
    cpu_s: float
    peak_mb: float


class Usage(NamedTuple):
    """Of a process tree that runs: CPU seconds so far (of children that have ended too), memory in MB.

    `peak_mb` sums each process's own peak, so it may be more than there ever was at one time.
    """

    cpu_s: float
    rss_mb: float
    pss_mb: float
    peak_mb: float


class Ready(NamedTuple):
    """How long until a process was ready, by when it had spent most of its CPU, and its usage then.

    The second matters where a tool looks only every few seconds whether it is ready.
    """

    wall_s: float
    busy_s: float
    usage: Usage


class NotReadyError(RuntimeError):
    """A process ended, or time ran out."""


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


@dataclass
class Service:
    """A process that serves, with its children; `started` is when, on the monotonic clock."""

    process: subprocess.Popen[bytes]
    log: Path
    started: float = field(default_factory=time.monotonic)

    def usage(self) -> Usage:
        """What it has used so far."""
        return usage_of(self.process.pid)

    def cpu_s(self) -> float:
        """The CPU alone, which is read sooner."""
        return cpu_of(self.process.pid)

    def until(self, is_ready: Callable[[], bool], timeout_s: float) -> Ready:
        """Wait until it is ready. Raises `NotReadyError`."""
        spent: list[tuple[float, float]] = []
        while not is_ready():
            now = time.monotonic() - self.started
            if self.process.poll() is not None:
                said = self.log.read_text(errors="replace")[-500:]
                raise NotReadyError(f"it ended with {self.process.returncode} before it was ready: {said}")
            if now > timeout_s:
                raise NotReadyError(f"not ready after {timeout_s:.0f} s")
            spent.append((now, self.cpu_s()))
            time.sleep(_LOOK_S)
        wall_s, usage = time.monotonic() - self.started, self.usage()
        busy_s = next((at for at, cpu_s in spent if cpu_s >= _MOST_OF_IT * usage.cpu_s), wall_s)
        return Ready(wall_s, busy_s, usage)

    def kill(self) -> None:
        """SIGKILL: no time to write anything down."""
        self.process.kill()
        self.process.wait()


class Services(Service):
    """Several processes as one: what they use is added up. What is asked of one alone is asked of the first."""

    def __init__(self, services: Sequence[Service]) -> None:
        """At least one."""
        super().__init__(services[0].process, services[0].log, services[0].started)
        self._services = services

    def usage(self) -> Usage:
        return Usage(*map(sum, zip(*(it.usage() for it in self._services), strict=True)))

    def cpu_s(self) -> float:
        return sum(it.cpu_s() for it in self._services)


@contextmanager
def service(command: Sequence[str], *, env: Mapping[str, str], cwd: Path, name: str) -> Iterator[Service]:
    """Run a process for as long as the block lasts; what it says goes to a file in `cwd`."""
    log = cwd / f"{name}.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, **env},
            cwd=cwd,
        )
    try:
        yield Service(process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def get(url: str, timeout_s: float = 2.0) -> bytes | None:
    """The body of a 200; None for anything else."""
    try:
        with urlopen(url, timeout=timeout_s) as response:
            body: bytes = response.read()
            return body if response.status == 200 else None
    except (URLError, OSError):
        return None


def usage_of(pid: int) -> Usage:
    """Of a process and those below it."""
    rss = pss = peak = 0.0
    for each in _tree(pid):
        status = _table(f"/proc/{each}/status")
        rss += status.get("VmRSS", 0) / 1024
        peak += status.get("VmHWM", 0) / 1024
        pss += _table(f"/proc/{each}/smaps_rollup").get("Pss", 0) / 1024
    return Usage(cpu_of(pid), rss, pss, peak)


def cpu_of(pid: int) -> float:
    """CPU seconds, user and system, of a process and those below it, the ended ones too."""
    return sum(_cpu(each) for each in _tree(pid))


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    # utime, stime, cutime, cstime: see proc(5).
    return sum(map(int, fields[11:15])) / _TICKS


def _tree(pid: int) -> Iterator[int]:
    """A process and those below it, but a child that has not yet become another program: until then it shows its
    parent's memory, which would count twice."""
    yield pid
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return
    for task in tasks:
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in map(int, children):
            if _command(child) != _command(pid):
                yield from _tree(child)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _table(path: str) -> dict[str, int]:
    """The lines `Name: 123 kB` of a file of /proc; empty if the process has gone."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return {}
    out = {}
    for line in lines:
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdecimal():
            out[name] = int(words[0])
    return out
