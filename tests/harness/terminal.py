"""A real terminal to type at and to look at: a pty with `kshadow watch` on it, and what pyte makes of what came."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyte

from tests import ROOT
from tests.unit.cli.running import environment

DEADLINE_S = 60.0

KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "end": "\x1b[F",
    "ctrl+c": "\x03",
}


class Terminal:
    """What is on the screen, and the process before it."""

    def __init__(
        self, process: subprocess.Popen[bytes], before: list[Any], ours: int, theirs: int, columns: int, lines: int
    ) -> None:
        self.process = process
        self.before = before
        """The terminal's settings before the process began."""
        self._ours, self._theirs = ours, theirs
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.sent = b""

    def read(self, wait_s: float = 0.05) -> bool:
        """Take what came; whether anything did."""
        if not select.select([self._ours], [], [], wait_s)[0]:
            return False
        try:
            piece = os.read(self._ours, 1 << 16)
        except OSError:  # Linux's end of a terminal
            return False
        self.sent += piece
        # pyte takes ESC[>1u, keyboard modes that it does not know, for "go back to where you were".
        with contextlib.suppress(TypeError):
            self._stream.feed(piece)
        return bool(piece)

    @property
    def text(self) -> str:
        """The lines of the screen."""
        return "\n".join(self.screen.display)

    def until(self, *seen: Callable[[str], Any] | str) -> str:
        """Read until the screen shows all of this at once: the screen, then."""

        def is_seen(text: str) -> bool:
            return all(it in text if isinstance(it, str) else it(text) for it in seen)

        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            if is_seen(self.text):
                return self.text
            if not self.read() and self.process.poll() is not None and not self.read():
                break
        assert is_seen(self.text), f"ended {self.process.poll()}, not seen:\n{self.text}\n{self.sent[-500:]!r}"
        return self.text

    def type(self, *keys: str) -> None:
        """Keys by their names, or text as it is."""
        for key in keys:
            os.write(self._ours, KEYS.get(key, key).encode())

    def resize(self, columns: int, lines: int) -> None:
        """As if the window was drawn larger or smaller."""
        self.screen.resize(lines, columns)
        self.screen.reset()
        size(self._theirs, columns, lines)
        self.process.send_signal(signal.SIGWINCH)

    def ends(self) -> int:
        """Read to the end: the exit code."""
        deadline = time.monotonic() + DEADLINE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read()
        while self.read():
            pass
        return self.process.wait(1)

    @property
    def settings(self) -> list[Any]:
        """As the process left the terminal: echo, lines, signals."""
        return termios.tcgetattr(self._theirs)


def size(terminal: int, columns: int, lines: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


@contextmanager
def terminal(
    *arguments: object, columns: int = 80, lines: int = 24, module: str = "agent.cli.main", **env: str
) -> Iterator[Terminal]:
    """`kshadow` with these arguments, or another module, on a terminal of its own."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    ours, theirs = pty.openpty()
    size(theirs, columns, lines)
    before = termios.tcgetattr(theirs)
    try:
        with subprocess.Popen(
            command, env=environment(**env), cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs
        ) as process:
            try:
                yield Terminal(process, before, ours, theirs, columns, lines)
            finally:
                if process.poll() is None:
                    process.kill()
    finally:
        os.close(ours)
        os.close(theirs)


def is_restored(sent: bytes) -> bool:
    """Whether the alternate screen was left, the cursor shown and the mouse let go, in the end."""

    def last(on: bytes, off: bytes) -> bool:
        return sent.rfind(off) > sent.rfind(on) >= 0

    return (
        last(b"\x1b[?1049h", b"\x1b[?1049l")
        and last(b"\x1b[?25l", b"\x1b[?25h")
        and last(b"\x1b[?1000h", b"\x1b[?1000l")
        and last(b"\x1b[?2004h", b"\x1b[?2004l")
    )
