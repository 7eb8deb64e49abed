"""Where tools lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.tools.embedded.jars import cache_directory
from tests.harness.tools.catalogue import TOOLS


def place(name: str) -> Path:
    """The file that `name` is built to, by its version; it may not be there yet."""
    tool = TOOLS[name]
    return cache_directory() / "tools" / f"{tool.name}-{tool.label}" / tool.name


def find(name: str) -> Path | None:
    """The program, where it was built."""
    path = place(name)
    return path if os.access(path, os.X_OK) else None


def need(name: str) -> Path:
    """The program; a test that asks for one that is missing is skipped, with the reason."""
    if path := find(name):
        return path
    command = f"make tools TOOLS={name}" if TOOLS[name].only_by_name else "make tools"
    pytest.skip(f"{name} {TOOLS[name].label} is not built: {command} (Go needed)")
