"""Reloading: real files, links that turn, a real SIGHUP to a real process."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

from agent.cli.config_file import load_config_file
from agent.cli.main import cli
from agent.cli.run_options import declared
from agent.cli.run_settings import rereader, run_settings
from agent.cli.session import session_of
from agent.config.reload import Changes, Reloader, reloading
from agent.config.settings import RunSettings
from tests import ROOT
from tests.unit.cli.running import environment
from tests.waiting import until

POLL_S = 0.02
START = "bootstrap-server: b\nmax-series: 5\n"


class Applied:
    """What was handed on."""

    def __init__(self) -> None:
        self.calls: list[tuple[RunSettings, Changes]] = []
        self.fails = False

    def __call__(self, settings: RunSettings, changes: Changes) -> None:
        if self.fails:
            raise OSError("cannot apply that")
        self.calls.append((settings, changes))

    @property
    def series(self) -> list[int]:
        return [settings.clusters[0].metrics.max_series for settings, _ in self.calls]


def made(path: Path, applied: Applied, clock: Callable[[], float] = time.time) -> Reloader:
    """A reloader as `kshadow --config PATH run` would have it."""
    top = click.Context(cli, **cli.context_settings)
    loaded = load_config_file(path, cli, top)
    session_of(top).config_file = loaded
    top.default_map = loaded.defaults
    ctx = declared.make_context("run", [], parent=top)
    again = rereader(ctx)
    assert again is not None
    return Reloader(*again, run_settings(ctx), applied, poll_s=POLL_S, clock=clock)


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@contextmanager
def running(reloader: Reloader) -> Iterator[Reloader]:
    reloader.start()
    try:
        yield reloader
    finally:
        reloader.stop()


def test_a_pipe_is_read_once(caplog: pytest.LogCaptureFixture) -> None:
    """As a shell's `<(…)`: read again it is empty, and all that it had told was as if it had not."""
    applied = Applied()
    reading, writing = os.pipe()
    with open(reading, "rb") as pipe, open(writing, "wb") as file:
        file.write(START.encode())
        file.close()
        path = Path(f"/dev/fd/{pipe.fileno()}")
        with running(made(path, applied)) as reloader:
            # It is looked at before it is asked for: nothing is said of that.
            time.sleep(5 * POLL_S)
            assert (reloader.status().success, caplog.text) == (True, "")
            reloader.wake()
            until(lambda: not reloader.status().success)
    assert f"{path} is a pipe, which is read once; the settings stay as they were" in caplog.text
    assert not applied.calls


def test_a_change_of_the_file(tmp_path: Path) -> None:
    applied = Applied()
    path = written(tmp_path / "k.yaml", START)
    with running(made(path, applied)) as reloader:
        written(path, START.replace("5", "6") + "lag: false\n")
        until(lambda: applied.series == [6])
        (_, changes) = applied.calls[0]
        assert [str(it) for it in changes.applied] == ["max-series"]
        assert [str(it) for it in changes.needs_restart] == ["lag"]
        assert reloader.running.clusters[0].lag.enabled
        assert reloader.status().success


def test_a_turned_link(tmp_path: Path) -> None:
    """As Kubernetes changes a ConfigMap: the file is a link to `..data/k.yaml`, and `..data` one to a directory."""
    for name, series in (("first", 5), ("second", 6)):
        (tmp_path / name).mkdir()
        written(tmp_path / name / "k.yaml", START.replace("5", str(series)))
    (tmp_path / "..data").symlink_to("first")
    path = tmp_path / "k.yaml"
    path.symlink_to(Path("..data") / "k.yaml")
    inode = os.lstat(path)
    applied = Applied()
    with running(made(path, applied)):
        (tmp_path / "..data_tmp").symlink_to("second")
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")
        until(lambda: applied.series == [6])
    assert os.lstat(path) == inode


def test_a_bad_file_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    applied, times = Applied(), iter((100.0, 200.0, 300.0))
    path = written(tmp_path / "k.yaml", START)
    reloader = made(path, applied, lambda: next(times))
    assert (reloader.status().success, reloader.status().last_success_s) == (True, 100)
    with caplog.at_level(logging.INFO, "kshadow"):
        written(path, "max-serie: 6\nlag-interval: 5\n")
        assert not reloader.reload()
    assert (reloader.status().success, reloader.status().last_success_s) == (False, 100)
    said = [it.getMessage() for it in caplog.records]
    assert f"reload: {path}: unknown key 'max-serie'; did you mean 'max-series'?" in said
    assert any("lag-interval: expected a duration" in it for it in said)
    assert said[-1] == f"reload: {path} is refused; the settings stay as they were"
    assert (applied.calls, reloader.running.clusters[0].metrics.max_series) == ([], 5)
    written(path, START.replace("5", "7"))
    assert reloader.reload()
    assert (reloader.status().success, reloader.status().last_success_s) == (True, 200)
    assert applied.series == [7]


def test_a_file_that_goes_away_is_refused_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    applied = Applied()
    path = written(tmp_path / "k.yaml", START)
    with running(made(path, applied)) as reloader:
        path.unlink()
        until(lambda: not reloader.status().success)
        time.sleep(POLL_S * 10)
        assert sum("is refused" in it.getMessage() for it in caplog.records) == 1
        written(path, START)
        until(lambda: reloader.status().success)
    assert applied.calls == [], "it came back as it was"


def test_a_file_that_cannot_be_looked_at_for_a_while(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As on a file server that is away; here a link leads to a name that is too long for any file."""
    applied = Applied()
    mount, next_one = tmp_path / "mount", tmp_path / "next"
    for name, text in (("a", START), ("b", START.replace("5", "6"))):
        (tmp_path / name).mkdir()
        written(tmp_path / name / "k.yaml", text)
    mount.symlink_to("a")
    with running(made(mount / "k.yaml", applied)) as reloader:
        next_one.symlink_to("x" * 300)
        next_one.replace(mount)
        until(lambda: not reloader.status().success)
        assert "cannot be read: File name too long" in caplog.text
        next_one.symlink_to("b")
        next_one.replace(mount)
        until(lambda: applied.series == [6])


def test_half_a_file_is_none(tmp_path: Path) -> None:
    """What is there at one look and not at the next is not read."""
    applied = Applied()
    path = written(tmp_path / "k.yaml", START)
    reloader = made(path, applied)
    assert [reloader._has_changed() for _ in range(2)] == [False, True]
    assert reloader.reload(quietly=True)
    for text in ("bootstrap-server: b\n", "bootstrap-server: b\nmax-", "bootstrap-server: b\nmax-series: 6\n"):
        written(path, text)
        assert not reloader._has_changed()
    assert reloader._has_changed()
    assert applied.calls == []


def test_what_changed_while_the_agent_started(tmp_path: Path) -> None:
    applied = Applied()
    path = written(tmp_path / "k.yaml", START)
    reloader = made(path, applied)
    written(path, START.replace("5", "6"))
    with running(reloader):
        until(lambda: applied.series == [6])


def test_a_restart_is_asked_for_until_it_comes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    applied = Applied()
    path = written(tmp_path / "k.yaml", START)
    reloader = made(path, applied)
    written(path, START + "lag: false\nlisten: ':1'\n")
    with caplog.at_level(logging.INFO, "kshadow"):
        assert reloader.reload()
        assert reloader.reload()
    said = [it.getMessage() for it in caplog.records]
    assert said.count("reload: needs a restart: lag, listen") == 2
    assert said.count(f"reload: {path} read; changed: nothing that can take effect now") == 2
    assert applied.calls == []
    caplog.clear()
    written(path, START)
    with caplog.at_level(logging.INFO, "kshadow"):
        assert reloader.reload(quietly=True)
    assert caplog.records == [], "it was put back"


def test_what_cannot_be_applied(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    applied = Applied()
    path = written(tmp_path / "k.yaml", START)
    reloader = made(path, applied)
    applied.fails = True
    written(path, START.replace("5", "6"))
    assert not reloader.reload()
    assert not reloader.status().success
    assert "cannot apply that" in caplog.text
    applied.fails = False
    assert reloader.reload()
    assert applied.series == [6], "tried again"


def test_warnings_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path / "k.yaml", START)
    reloader = made(path, Applied())
    written(path, START + "deny-group: tmp-*\n")
    assert reloader.reload()
    assert "is taken for the name itself" in caplog.text


CHILD = """
import sys, time
from pathlib import Path
from agent.config.reload import reloading
from tests.unit.config.test_reload import Applied, made
applied = Applied()
reloader = made(Path(sys.argv[1]), applied)
reloader._poll_s = 3600  # only the signal wakes it
with reloading(reloader):
    print("ready", flush=True)
    for line in sys.stdin:
        if line == "status\\n":
            print(reloader.status().success, applied.series, flush=True)
print("stopped", flush=True)
"""


@pytest.mark.usefixtures("process")
def test_a_signal_to_a_process(tmp_path: Path) -> None:
    path = written(tmp_path / "k.yaml", START)
    command = [sys.executable, "-c", CHILD, str(path)]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"

        def status() -> str:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write("status\n")
            child.stdin.flush()
            return child.stdout.readline()

        for text, expected in (
            (START.replace("5", "6"), "True [6]\n"),
            ("nonsense: 1", "False [6]\n"),
            (START.replace("5", "7"), "True [6, 7]\n"),
        ):
            written(path, text)
            child.send_signal(signal.SIGHUP)
            until(lambda expected=expected: status() == expected)  # type: ignore[misc]
        # A burst is no trouble.
        for _ in range(100):
            child.send_signal(signal.SIGHUP)
        assert status() == "True [6, 7]\n"
        child.stdin.close()
        assert child.stdout.read() == "stopped\n"
    assert child.returncode == 0


def test_the_signal_is_handled_as_before_afterwards(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGHUP)
    applied = Applied()
    path = written(tmp_path / "k.yaml", START)
    with reloading(made(path, applied)):
        written(path, START.replace("5", "6"))
        os.kill(os.getpid(), signal.SIGHUP)
        until(lambda: applied.series == [6])
    assert signal.getsignal(signal.SIGHUP) is before


def test_a_reloader_that_never_started_stops(tmp_path: Path) -> None:
    made(written(tmp_path / "k.yaml", START), Applied()).stop()
