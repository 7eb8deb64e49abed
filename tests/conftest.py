"""What holds for all tests."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# The same examples each time, however slow the machine is; `make fuzz` and HYPOTHESIS_PROFILE=random look for others.
settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

COUNTED: list[str] = []

# A shell that runs a script's job in the background makes it ignore SIGINT, and children inherit that: tests that
# press Ctrl-C would then wait for nothing. A handler of ours is reset to the default in whatever we start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where several processes share the tests: by files, and all of `tests/integration` to one, in its order."""
    from xdist.scheduler.loadfile import LoadFileScheduling

    class Sharing(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            folder = file.rpartition("/")[0]
            return folder if folder == "tests/integration" else file

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
    """How much was compared to brokers."""
    for line in COUNTED:
        terminalreporter.write_line(line)
