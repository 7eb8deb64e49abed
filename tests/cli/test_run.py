"""`kshadow run` and the other commands that ask brokers, as far as that goes without one."""

from __future__ import annotations

import pytest

from agent.cli.options import Pair
from tests.cli.running import kshadow, spawn


@pytest.mark.parametrize(
    "listen", ["9308", "localhost", "localhost:", "localhost:http", "localhost:65536", "x:-1", ""]
)
def test_no_address(listen: str) -> None:
    result = kshadow("run", "--bootstrap-server", "localhost:1", "--listen", listen)
    assert (result.exit_code, result.stdout) == (2, "")


def test_run_needs_brokers() -> None:
    result = kshadow("run")
    assert result.exit_code == 2
    assert "--bootstrap-server is needed (or KSHADOW_BOOTSTRAP_SERVER)" in result.stderr


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
