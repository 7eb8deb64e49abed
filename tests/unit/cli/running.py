"""The command in this process, as a process with pipes, and as a process on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from click.testing import CliRunner, Result

from agent.cli.main import cli
from tests import ROOT
from tests.unit.cli.prefork import run_on

DATA = ROOT / "tests" / "data" / "cli"
SEGMENTS = DATA / "segments"
FORMATS = ("table", "json", "ndjson", "yaml")

NO_CONTEXT = {"KSHADOW_CONTEXTS": "/dev/null"}
"""Whoever runs the tests may have some."""

COMMAND = [sys.executable, "-m", "agent.cli.main"]


def environment(**extra: str) -> dict[str, str]:
    """This one without what changes the command's answers."""
    gone = ("COLUMNS", "LINES", "NO_COLOR", "TERM", "http_proxy", "PYTHONUTF8", "PYTHONIOENCODING")
    kept = {key: value for key, value in os.environ.items() if key not in gone and not key.startswith("KSHADOW_")}
    return {**kept, "TERM": "xterm-256color", "PYTHONUNBUFFERED": "", **NO_CONTEXT, **extra}


def kshadow(*arguments: object, stdin: str | bytes | None = None, env: Mapping[str, str] | None = None) -> Result:
    """Run in this process: what it printed on the two streams, its exit code, and what it raised."""
    unset: dict[str, str | None] = {name: None for name in os.environ if name.startswith("KSHADOW_")}
    result = CliRunner().invoke(
        cli, [str(it) for it in arguments], input=stdin, env={**unset, **NO_CONTEXT, **(env or {})}
    )
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def lines(result: Result) -> list[str]:
    """The lines of standard output; none may be torn."""
    assert result.stdout == "" or result.stdout.endswith("\n")
    return result.stdout.split("\n")[:-1]


def spawn(*arguments: object, env: Mapping[str, str] | None = None, **options: object) -> subprocess.Popen[bytes]:
    """Run as a process of its own."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    command = [*COMMAND, *(it if isinstance(it, bytes) else str(it) for it in arguments)]
    return subprocess.Popen(command, env=environment(**(env or {})), cwd=ROOT, **streams)  # type: ignore[call-overload, no-any-return]


def on_terminal(*arguments: object, columns: int = 80, env: Mapping[str, str] | None = None) -> tuple[str, int]:
    """All that a terminal of 24 lines is sent, with its line ends as `\\n`, and the exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with ThreadPoolExecutor(1) as reading:
        sent = reading.submit(lambda: b"".join(_read(ours)))
        try:
            if any(name.startswith("PYTHON") for name in env or ()):  # heeded as an interpreter starts
                with spawn(*arguments, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as process:
                    code = process.wait()
            else:
                code = run_on(theirs, [str(it) for it in arguments], environment(**(env or {})))
        finally:
            os.close(theirs)
        text = sent.result()
    os.close(ours)
    return text.decode().replace("\r\n", "\n"), code


def _read(descriptor: int) -> Iterable[bytes]:
    while True:
        try:
            piece = os.read(descriptor, 1 << 16)
        except OSError:  # Linux's end of a terminal
            return
        if not piece:
            return
        yield piece


def ndjson(path: Path, *texts: str) -> Path:
    """A file of lines."""
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return path
