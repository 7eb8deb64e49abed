"""What holds for all tests."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# The same examples each time, however slow the machine is; `make fuzz` and HYPOTHESIS_PROFILE=random look for others.
settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# Spark's JVMs live for seconds here: what they compile for a long life is half of what they cost.
for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(name, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

COUNTED: list[str] = []

ROOM_GIB = 12


def in_memory(room: Path = Path("/dev/shm")) -> str | None:
    """A place for temporary files that no slow disk holds up: brokers whose writes hang answer nobody in time."""
    try:
        files = os.statvfs(room)
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        memory = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None
    free = min(files.f_bavail * files.f_frsize, memory)
    return str(room) if free >= ROOM_GIB << 30 and os.access(room, os.W_OK | os.X_OK) else None


# Processes that share the tests, and whatever they start, inherit it.
if "TMPDIR" not in os.environ and (place := in_memory()) is not None:
    os.environ["TMPDIR"] = tempfile.tempdir = place

# A shell that runs a script's job in the background makes it ignore SIGINT, and children inherit that: tests that
# press Ctrl-C would then wait for nothing. A handler of ours is reset to the default in whatever we start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


SCENES = ("tests/integration", "tests/kube", "tests/stack")
"""Folders whose tests all look at one scene, so that one process has to have them all."""
LONGEST = (
    "tests/spark/test_backfill.py",
    "tests/integration",
    "tests/faults/test_faults.py",
    "tests/export/test_topic.py",
    "tests/spark/test_killed.py",
    "tests/stack",
    "tests/submit/test_real.py",
    "tests/kube",
    "tests/embedded/test_faults.py",
    "tests/submit/test_rights.py",
    "tests/doctor/test_live.py",
    "tests/bench/test_bench.py",
    "tests/spark/report/test_refusals.py",
    "tests/lag/test_live.py",
    "tests/observer/test_live.py",
    "tests/spark/report/test_numbers.py",
    "tests/admin/test_live.py",
    "tests/sampling/test_live.py",
    "tests/sidecar/test_size.py",
    "tests/embedded/test_demo.py",
    "tests/snapshot/test_topic.py",
    "tests/rig/test_rig.py",
    "tests/page/test_browser.py",
    "tests/tour/test_tour.py",
    "tests/cli/test_hostile.py",
    "tests/cli/test_generate.py",
    "tests/api/test_schemathesis.py",
)
"""What takes longest goes first, or one process would work on it alone at the end."""


HEAVY = tuple(f"tests/{name}/" for name in ("spark", "bench", "submit", "fuzz", "chart", "coordinator", "image"))
"""Whose tests compute rather than wait: they leave the processor to those that have brokers to answer in time."""
NICE = 10


def scope_of(nodeid: str) -> str:
    """What goes to one process as a whole: a file, or a folder with one scene."""
    file = nodeid.partition("::")[0]
    folder = file.rpartition("/")[0]
    return folder if folder in SCENES else file


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Where several processes share the tests: first those that take longest, then what waits for brokers, then the
    rest, in pieces small enough for all to end at the same time."""
    # Last of all: pytest itself moves tests of session-wide parameters.
    yield
    if hasattr(config, "workerinput"):
        rank = {scope: number for number, scope in enumerate(LONGEST)}
        waits = {scope_of(it.nodeid) for it in items if it.get_closest_marker("integration")}
        items.sort(key=lambda it: rank.get(scope := scope_of(it.nodeid), len(rank) + (scope not in waits)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before its fixtures start anything. Only who may go back to what was before gives way."""
    if hasattr(item.config, "workerinput") and os.geteuid() == 0:
        os.setpriority(os.PRIO_PROCESS, 0, NICE if item.nodeid.startswith(HEAVY) else 0)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where several processes share the tests: by files, and all of a folder with one scene to one, in its order."""
    from xdist.scheduler.loadfile import LoadFileScheduling

    class Sharing(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    return Sharing(config, log)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """What a process that shares the tests has counted, for the one that tells."""
    output = getattr(session.config, "workeroutput", None)
    counting = sys.modules.get("tests.integration.conftest")
    if output is not None and counting is not None:
        output["counted"] = [str(tally) for tally in counting.TALLIES.values()]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """It has ended."""
    COUNTED.extend(getattr(node, "workeroutput", {}).get("counted", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How much was compared to brokers, and why tests ran once more: a failure that did not return is told, too."""
    for line in COUNTED:
        terminalreporter.write_line(line)
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.section(f"ran once more: {report.nodeid}", "_")
        terminalreporter.line(report.longreprtext)
