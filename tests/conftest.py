"""What holds for all tests."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import ssl
import sys
import tempfile
import threading
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# The same examples each time, however slow the machine is; `make fuzz` and HYPOTHESIS_PROFILE=random look for others.
# Tests that say how many they want say it by `tests.examples`.
settings.register_profile(
    "steady", derandomize=True, deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("random", deadline=None)
settings.load_profile(profile := os.environ.get("HYPOTHESIS_PROFILE", "steady"))
if profile == "steady":
    # Hypothesis also tries the numbers and texts of our modules, of those that a process has loaded by then: what
    # failed in one run of five processes passed in the next.
    assert hasattr(providers, "_get_local_constants")
    providers._get_local_constants = lambda: providers._local_constants

# Spark's JVMs live for seconds here: what they compile for a long life is half of what they cost.
for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(name, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@cache
def _rfc3987_syntax() -> types.ModuleType:
    del sys.modules["rfc3987_syntax"]
    return importlib.import_module("rfc3987_syntax")


def _is_valid_syntax(term: str, text: str) -> bool:
    return bool(_rfc3987_syntax().is_valid_syntax(term, text))


# Whoever imports jsonschema imports this, and it makes parsers of 38 grammars (2.4 s in each process), which only
# checks of a format `iri` need: the bill of materials has one.
sys.modules["rfc3987_syntax"] = types.ModuleType("rfc3987_syntax")
sys.modules["rfc3987_syntax"].is_valid_syntax = _is_valid_syntax  # type: ignore[attr-defined]


@cache
def _trusting_public_authorities() -> ssl.SSLContext:
    return httpx.create_ssl_context()


def _context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
    if (verify, cert, trust_env) == (True, None, True):
        return _trusting_public_authorities()
    return httpx.create_ssl_context(verify, cert, trust_env)


# Each client of httpx, and so each `httpx.get`, reads all certificate authorities anew (50 ms), though what tests ask
# has no certificate, or one that they name.
importlib.import_module("httpx._transports.default").create_ssl_context = _context  # type: ignore[attr-defined]

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


NEEDS = {
    "kafka": "starts real brokers: Java, and Kafka's jars",
    "spark": "runs Spark: Java",
    "browser": "drives the system's Chromium",
    "kubernetes": "asks a real Kubernetes API server",
    "process": "starts programs",
}
"""What tests may need beyond Python, by the fixture that says so: a test that uses it bears its mark. `make
check` runs those that need nothing; of those, one that starts a program fails (`_forbid`)."""
WAITING = {"kafka", "browser", "kubernetes"}
"""What answers when it can: a test that waits for it may run once more, and both tries are told. All others may
not."""


@pytest.fixture(scope="session")
def kafka() -> None:
    """For tests that start brokers."""


@pytest.fixture(scope="session")
def process() -> None:
    """For tests that start other programs, or kshadow as one."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium, one for all tests of a process; each page has a context of its own."""
    from tests.harness.browser import chromium

    with chromium() as launched:
        yield launched


SCENES = ("tests/live/scenarios", "tests/live/helm/kube", "tests/live/stack", "tests/live/spark_jobs")
"""Folders whose tests all look at one scene, or share what takes long to start: one process has them all."""
LONGEST = (
    "tests/live/spark_jobs",
    "tests/live/scenarios",
    "tests/live/runtime/test_admin_mode.py",
    "tests/live/helm/kube",
    "tests/live/tools/doctor/test_live.py",
    "tests/live/persistence/snapshot/test_topic.py",
    "tests/live/stack",
    "tests/live/kafka/admin_api/test_live.py",
    "tests/live/kafka/lag/test_live.py",
    "tests/unit/cli/test_run.py",
    "tests/live/serving/test_page_browser.py",
    "tests/harness/faults/test_faults.py",
    "tests/live/kafka/logins/test_logins.py",
    "tests/live/tools/doctor/test_least_rights.py",
    "tests/live/runtime/test_sampling.py",
    "tests/live/runtime/test_shared_catch_up.py",
    "tests/live/tools/spark_submit/test_submit.py",
    "tests/live/tools/embedded/test_demo.py",
    "tests/harness/tour/test_tour.py",
    "tests/unit/cli/test_hostile.py",
    "tests/unit/cli/test_generate.py",
    "tests/unit/simulation/generator/test_histories.py",
)
"""What takes longest goes first, or one process would work on it alone at the end; what mostly waits beside what
mostly computes."""


HEAVY = (
    *(f"tests/live/{name}/" for name in ("helm/chart", "image")),
    *(f"tests/harness/{name}/" for name in ("bench", "fuzz")),
    "tests/unit/simulation/",
)
"""Whose tests compute rather than wait: they leave the processor to those that have brokers to answer in time. Not
Spark's: it gives a Python worker ten seconds to start, and no setting gives it more."""
NICE = 10


def scope_of(nodeid: str) -> str:
    """What goes to one process as a whole: a file, or a folder with one scene."""
    file = nodeid.partition("::")[0]
    folder = file.rpartition("/")[0]
    return next((scene for scene in SCENES if f"{folder}/".startswith(f"{scene}/")), file)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Where several processes share the tests: first those that take longest, then what waits for brokers among the
    rest, in pieces small enough for all to end at the same time."""
    # Before any is chosen by its marks.
    for item in items:
        needed = NEEDS.keys() & set(getattr(item, "fixturenames", ()))
        for name in needed:
            item.add_marker(name)
        if needed & WAITING:
            item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=5))
    # Last of all: pytest itself moves tests of session-wide parameters.
    yield
    if hasattr(config, "workerinput"):
        scopes = dict.fromkeys(scope_of(it.nodeid) for it in items)
        waits = {scope_of(it.nodeid) for it in items if it.get_closest_marker("kafka")}
        waiting = [it for it in scopes if it in waits and it not in LONGEST]
        others = [it for it in scopes if it not in waits and it not in LONGEST]
        # Evenly mixed; what waits is through before the end.
        rank = {scope: number / len(waiting) * 0.8 for number, scope in enumerate(waiting)}
        rank |= {scope: number / len(others) for number, scope in enumerate(others)}
        rank |= {scope: number - len(LONGEST) for number, scope in enumerate(LONGEST)}
        items.sort(key=lambda it: rank[scope_of(it.nodeid)])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Modules and tests stay to the end: looking through them for garbage, half a second each time, finds none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


_FORBIDDEN = threading.Event()


def _forbid(event: str, _: tuple[object, ...]) -> None:
    """An audit hook: a test that says that it needs nothing starts no program."""
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty") and _FORBIDDEN.is_set():
        pytest.fail("a test that starts a program uses the fixture `process`, or one that brings it along")


sys.addaudithook(_forbid)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """With its fixtures."""
    if not any(item.get_closest_marker(name) for name in NEEDS):
        _FORBIDDEN.set()
    try:
        return (yield)
    finally:
        _FORBIDDEN.clear()


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


def pytest_configure(config: pytest.Config) -> None:
    """The marks: those that fixtures bring, and one that a test bears."""
    for name, meaning in {**NEEDS, "thorough": "takes long; a smaller test holds most of it"}.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """What a process that shares the tests has counted, for the one that tells."""
    output = getattr(session.config, "workeroutput", None)
    counting = sys.modules.get("tests.live.scenarios.conftest")
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
