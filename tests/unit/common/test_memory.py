"""What was freed goes back to the system, or is used again."""

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

COME_AND_GO = """
import ctypes
import resource
from agent.common.memory import keep_freed_memory
lib, size, count = ctypes.CDLL(None), 2 << 20, 50
lib.malloc.restype, lib.malloc.argtypes, lib.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
keep_freed_memory(64 << 20)
keep_freed_memory(None)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(count):
    block = lib.malloc(size)
    ctypes.memset(block, 1, size)
    lib.free(block)
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(faults / (count * size // resource.getpagesize()))
"""


@pytest.mark.usefixtures("process")
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library cannot")
def test_what_was_freed_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", FREED], check=True, capture_output=True, text=True)
    assert float(done.stdout) > 40


@pytest.mark.usefixtures("process")
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library cannot")
def test_blocks_that_come_and_go_are_not_new_each_time_once_nobody_asks_for_more_of_that() -> None:
    done = subprocess.run([sys.executable, "-c", COME_AND_GO], check=True, capture_output=True, text=True)
    assert float(done.stdout) < 0.1, "of the pages are faults"
