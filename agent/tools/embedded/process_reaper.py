"""Processes that must not outlive this one, however it ends.

Owns one watchdog, a `sh` that reads lines of process ids from a pipe. When this process is gone, killed
with SIGKILL even, the kernel closes the pipe, and the watchdog kills what its last line named.

Why not PR_SET_PDEATHSIG: it fires when the *thread* that started the child ends, it needs `preexec_fn`,
which is unsafe once there are threads, and only Linux has it. A pipe has none of these limits.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.common.interrupts import deferred_interrupts

# The last line wins. The pause lets a killed JVM's files settle before its directory goes.
_WATCHDOG = """
trap '' INT TERM HUP
while IFS= read -r line; do held=$line; done
if [ -n "$held" ]; then
  kill -KILL $held 2>/dev/null
  sleep 0.5
  if [ -n "$1" ]; then rm -rf -- "$1"; fi
fi
"""


class ProcessReaper:
    """Holds process ids; kills those still held when this process dies. Usable from several threads.

    `directory`, if given, is removed in that case too. Ending the processes in good order is the caller's
    work: `close` kills those of `start` whose end nobody waited for, and lets go of everything.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._held: list[int] = []
        self._started: dict[int, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        # A session of its own: Ctrl-C and a closing terminal reach this process, never the watchdog.
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "kshadow-leash", str(directory or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )

    def start(self, command: Sequence[str | Path], log_file: Path, **options: Any) -> subprocess.Popen[bytes]:
        """Start a process and watch it; what it says is appended to `log_file`. `options` are `Popen`'s.

        In a session of its own: Ctrl-C reaches only this process, which then ends it in order.
        """
        # No Ctrl-C between the start of a process and its being held.
        with log_file.open("ab") as log, deferred_interrupts():
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **options,
            )
            self._started[process.pid] = process
            self.watch(process.pid)
        return process

    def await_end(self, process: subprocess.Popen[bytes], timeout_s: float) -> None:
        """Wait for a process that was told to end, kill it if that takes longer, and let go of it."""
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self.release(process.pid)

    def watch(self, pid: int) -> None:
        """Kill `pid` if this process dies first."""
        with self._lock:
            self._held.append(pid)
            self._tell()

    def release(self, pid: int) -> None:
        """`pid` has ended and was waited for: its number may soon be another process's."""
        with self._lock:
            self._started.pop(pid, None)
            if pid in self._held:
                self._held.remove(pid)
                self._tell()

    def close(self) -> None:
        """Kill what was started and has not been waited for, let go of everything, and end the watchdog."""
        for process in self._started.values():
            if process.poll() is None:
                process.kill()
                process.wait()
        self._started.clear()
        self._held.clear()
        self._tell()
        if self._watchdog.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._watchdog.stdin.close()
        self._watchdog.wait()

    def _tell(self) -> None:
        pipe = self._watchdog.stdin
        if pipe is not None and not pipe.closed:
            # A watchdog that someone killed is no reason to fail the caller's own clean-up.
            with contextlib.suppress(BrokenPipeError):
                pipe.write(" ".join(map(str, self._held)) + "\n")
                pipe.flush()
