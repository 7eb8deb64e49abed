"""A command on a terminal, of which each stream has one of its own: so it is known what was said where."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence

from tests.unit.cli.running import spawn

LINES = 24


def on_two_terminals(words: Sequence[str], columns: int, env: Mapping[str, str]) -> tuple[str, str, int]:
    """What standard output and standard error were sent, with plain line ends, and the exit code."""
    ours, theirs = zip(*(_terminal(columns) for _ in range(2)), strict=True)
    try:
        with spawn(*words, env=env, stdin=subprocess.DEVNULL, stdout=theirs[0], stderr=theirs[1]) as process:
            for descriptor in theirs:
                os.close(descriptor)
            texts = _read(ours)
    finally:
        for descriptor in ours:
            os.close(descriptor)
    out, err = (texts[descriptor].decode(errors="replace").replace("\r\n", "\n") for descriptor in ours)
    return out, err, process.returncode


def _terminal(columns: int) -> tuple[int, int]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
    return ours, theirs


def _read(descriptors: Sequence[int]) -> dict[int, bytes]:
    texts = dict.fromkeys(descriptors, b"")
    left = set(descriptors)
    while left:
        for descriptor in select.select(list(left), [], [])[0]:
            try:
                piece = os.read(descriptor, 1 << 16)
            except OSError:  # Linux's end of a terminal
                piece = b""
            texts[descriptor] += piece
            if not piece:
                left.discard(descriptor)
    return texts
