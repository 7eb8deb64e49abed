"""Opens a page for who started us.

Python's `webbrowser` chooses the browser, in a process of its own: one that prints, waits, or is none cannot disturb
the terminal.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable


def is_opened(asked: bool | None) -> bool:
    """Whether to open a page: as asked, else on a terminal with a desktop, where browsers have windows."""
    if asked is not None:
        return asked
    has_desktop = sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return sys.stdout.isatty() and has_desktop and "SSH_CONNECTION" not in os.environ


def open_in_browser(url: str) -> Callable[[], None]:
    """Open it, and give what ends the process that did; the browser itself is the user's."""
    process = subprocess.Popen(
        [sys.executable, "-m", "webbrowser", "-t", url],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def end() -> None:
        process.terminate()
        process.wait()

    return end
