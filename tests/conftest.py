"""What holds for all tests."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

# A shell that runs a script's job in the background makes it ignore SIGINT, and children inherit that: tests that
# press Ctrl-C would then wait for nothing. A handler of ours is reset to the default in whatever we start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several processes share the tests (`-n`, `--dist loadgroup`), those of one folder that need brokers stay
    together: they share a broker, and tell what they counted at the end."""
    for item in items:
        if item.get_closest_marker("integration") is not None:
            item.add_marker(pytest.mark.xdist_group(_folder(item.path)))


def _folder(path: Path) -> str:
    # The files of `tests/integration` share their brokers; elsewhere each file has its own.
    return path.parent.name if path.parent.name == "integration" else str(path)
