"""`spark-submit` as a child: what it says, how it is ended, and what comes of it.

The child is a session of its own, so that Ctrl-C at the terminal reaches us alone. The first signal goes on to the
driver, Python's process below the JVM, as SIGTERM: a stream ends its batch, and the JVM then ends by itself. Sent to
the JVM it would cut the driver's connection off at once. The second signal kills all. If this process is killed, a
`ProcessReaper` kills them.

What Spark says is hidden, but for lines that begin with `kshadow: ` or `Error: `; the driver's output and Spark's log
come as one stream, for Spark itself merges the driver's two.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, NamedTuple

from agent.tools.embedded.process_reaper import ProcessReaper

_FAILED = "Error: "
OURS = ("kshadow: ", _FAILED)
LAST_LINES = 30
HEARD_MS = 500
"""A signal is heard this long after it came, at most."""
DONE, WRONG = 0, 1
_OF_A_JOB = range(4)
"""The exit codes that mean something: those of the contract."""

_CRASHED = ("Traceback (most recent call last):", "Exception in thread ")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class JobResult(NamedTuple):
    """How it ended. `code` is ours; `hidden`: the last lines that were not shown, where they may tell why."""

    code: int
    hidden: tuple[str, ...] = ()
    message: str | None = None


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    main: Path,
    say: Callable[[str], None],
    *,
    verbose: bool = False,
) -> JobResult:
    """Run it to its end; `say` takes each line that is to be seen. `main` is the driver's file. Main thread only."""
    child = _Child(command, environment, main)
    listening = _OutputFilter(say, verbose=verbose)
    with child.started() as output:
        for raw in output:
            listening.take(raw.decode(errors="replace").rstrip("\r"))
    return _ended(child, listening)


def _ended(child: _Child, listening: _OutputFilter) -> JobResult:
    code, by = child.code, child.signalled
    if code == DONE or (code in _OF_A_JOB and listening.told and not listening.crashed):
        return JobResult(code)
    if by is not None:
        return JobResult(128 + by, message=f"ended by {signal.Signals(by).name}")
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    return JobResult(code if code in _OF_A_JOB else WRONG, tuple(listening.hidden), f"spark-submit ended {how}")


class _OutputFilter:
    """The lines of a job: which are shown, and what the others told."""

    def __init__(self, say: Callable[[str], None], *, verbose: bool) -> None:
        self._say, self._verbose = say, verbose
        self.hidden: deque[str] = deque(maxlen=LAST_LINES)
        self.told = self.crashed = False

    def take(self, line: str) -> None:
        """One line."""
        ours = line.startswith(OURS)
        self.told |= ours
        # Spark prints the traces of what the job then tells in a sentence.
        self.crashed = (self.crashed or line.startswith(_CRASHED)) and not line.startswith(_FAILED)
        if ours or self._verbose:
            self._say(line)
        else:
            self.hidden.append(line)


class _Child:
    """The process, its driver, and the signals that come meanwhile."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], main: Path) -> None:
        self._command, self._environment, self._main = command, environment, main
        self._pid: int | None = None
        self.code = 0
        """Once it has ended; negative: the signal that ended it."""
        self.signalled: int | None = None
        """The first signal that came."""

    @contextmanager
    def started(self) -> Iterator[Iterator[bytes]]:
        """Start it; gives its lines. Afterwards it has ended, and all that it had started."""
        reaper = ProcessReaper()
        handlers = {it: signal.signal(it, self._on_signal) for it in _SIGNALS if _is_heard(it)}
        try:
            process = subprocess.Popen(
                self._command,
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._pid = process.pid
            reaper.watch(-process.pid)
            if self.signalled is not None:
                self._forward()
            waiting = threading.Thread(target=self._await_end, args=(process.pid,), daemon=True)
            waiting.start()
            try:
                assert process.stdout is not None
                yield _lines(process.stdout)
            except BaseException:
                self._kill()
                raise
            finally:
                waiting.join()
                self.code = process.wait()
                self._pid = None
                reaper.release(-process.pid)
                if process.stdout is not None:
                    process.stdout.close()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            reaper.close()

    def _await_end(self, pid: int) -> None:
        """When it ends, so does what it leaves behind, which may hold its end of the pipe. Not waited for yet, its
        number is nobody else's."""
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        self._kill()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.signalled is None:
            self.signalled = number
            self._forward()
        else:
            self._kill()

    def _forward(self) -> None:
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(driver_of(self._pid, self._main) or self._pid, signal.SIGTERM)

    def _kill(self) -> None:
        if self._pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)


def _lines(output: IO[bytes]) -> Iterator[bytes]:
    """Its lines, without their ends.

    No read waits for long: a signal that comes just before one begins, or to another thread, does not end it, and
    Python would act on it only when the child says something again.
    """
    ready, begun = select.poll(), b""
    ready.register(output, select.POLLIN)
    while True:
        if ready.poll(HEARD_MS):
            piece = os.read(output.fileno(), 1 << 16)
            if not piece:
                break
            *whole, begun = (begun + piece).split(b"\n")
            yield from whole
    if begun:
        yield begun


def _is_heard(number: int) -> bool:
    """Whether it is not ignored, as it is for what a script's shell runs in the background."""
    return signal.getsignal(number) is not signal.SIG_IGN


def driver_of(parent: int, main: Path) -> int | None:
    """The process id of the driver: the child of `parent` that runs `main`. None where there is none (yet)."""
    name = os.fsencode(main)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # `pid (name) state ppid …`; the name may hold anything.
            if int(stat.read_bytes().rpartition(b")")[2].split()[1]) != parent:
                continue
            if name in stat.with_name("cmdline").read_bytes().split(b"\0"):
                return int(stat.parent.name)
        except (OSError, IndexError, ValueError):
            # It has ended meanwhile.
            continue
    return None
