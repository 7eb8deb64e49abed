"""`kshadow run` and the other commands that ask brokers, as far as that goes without one."""

from __future__ import annotations

import os
import signal

import click
import pytest

from agent.cli.options import Pair
from agent.cli.run import address, stopped_by_signals
from tests.cli.running import kshadow, spawn


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        ("127.0.0.1:9308", ("127.0.0.1", 9308)),  # 1
        (":9308", ("0.0.0.0", 9308)),  # 2: every interface
        ("[::1]:0", ("::1", 0)),  # 3: brackets are the address's writing, not the address; 0 is any free port
        ("localhost:65535", ("localhost", 65535)),  # 4: the last port there is
    ],
)
def test_address(listen: str, expected: tuple[str, int]) -> None:
    assert address(listen) == expected


@pytest.mark.parametrize(
    "listen", ["9308", "localhost", "localhost:", "localhost:http", "localhost:65536", "x:-1", ""]
)
def test_no_address(listen: str) -> None:
    with pytest.raises(click.UsageError, match="--listen: HOST:PORT expected, "):
        address(listen)
    result = kshadow("run", "--bootstrap-server", "localhost:1", "--listen", listen)
    assert (result.exit_code, result.stdout) == (2, "")


def test_run_needs_brokers() -> None:
    result = kshadow("run")
    assert result.exit_code == 2
    assert "--bootstrap-server is needed (or KSHADOW_BOOTSTRAP_SERVER)" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_block_and_is_handled_as_before(number: signal.Signals) -> None:
    before = signal.getsignal(signal.SIGTERM)
    reached = []
    with stopped_by_signals():
        reached.append("began")
        os.kill(os.getpid(), number)
        signal.pause()
        reached.append("went on")
    assert reached == ["began"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_property_that_was_read_already() -> None:
    """click may convert a value that it has converted before."""
    assert Pair("property", "NAME=VALUE").convert(("a", "b"), None, None) == ("a", "b")


@pytest.mark.slow
def test_brokers_that_nobody_answers_for() -> None:
    """All at once: each waits for ten seconds."""
    commands = (["run"], ["coordinator", "g"], ["describe", "g"], ["run", "--group", "g"])
    processes = [spawn(*command, "--bootstrap-server", "localhost:1") for command in commands]
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (3, b"")
        assert err.startswith(b"Error: ") or b"Error: " in err
        assert b"Traceback" not in err
