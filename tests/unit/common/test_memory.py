"""What was freed goes back to the system."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from resource import getpagesize

import pytest


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * getpagesize() / 1e6


FREED = """
from agent.common.memory import return_freed_memory
from tests.unit.common.test_memory import resident_mb
kept = [bytes(3_000) for _ in range(20_000)]
del kept[:-1]  # the last one keeps the heap from shrinking by itself
before = resident_mb()
return_freed_memory()
print(before - resident_mb())
"""


@pytest.mark.usefixtures("process")
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library cannot")
def test_what_was_freed_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", FREED], check=True, capture_output=True, text=True)
    assert float(done.stdout) > 40
