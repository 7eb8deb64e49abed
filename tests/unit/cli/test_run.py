"""`kshadow run` and the other commands that ask brokers, as far as that goes without one."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import time
from pathlib import Path

import click
import httpx
import pytest
import yaml

from agent.cli.commands.run import _errors_reported
from agent.config.options import NameValue
from agent.persistence.export.spool import Spool
from agent.runtime.process import FIRST_LOOK_S
from tests.unit.cli.running import kshadow, spawn
from tests.unit.kubernetes.test_connection import kubeconfig
from tests.waiting import until


@pytest.mark.parametrize(
    "listen", ["9308", "localhost", "localhost:", "localhost:http", "localhost:65536", "x:-1", ""]
)
def test_no_address(listen: str) -> None:
    result = kshadow("run", "--bootstrap-server", "localhost:1", "--listen", listen)
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize("option", ["--lag-interval", "--snapshot-interval", "--history-roll", "--history-samples"])
def test_no_interval_is_longer_than_a_thread_can_wait(option: str) -> None:
    """The threads that were to wait for it ended: there was no lag, and there were no snapshots."""
    result = kshadow("run", "--bootstrap-server", "localhost:1", option, "200000d")
    assert result.exit_code == 2
    assert "expected at most 36500d, got '200000d'" in result.stderr


def test_a_shard_that_the_host_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended in a traceback."""
    monkeypatch.setattr(socket, "gethostname", lambda: "laptop")
    result = kshadow("run", "--bootstrap-server", "localhost:1", "--listen", "127.0.0.1:0", "--shard", "auto/2")
    assert result.exit_code == 2
    said = "--shard: shard auto/2: expected a host name that ends in a number below 2, got 'laptop'"
    assert said in " ".join(result.stderr.split())


def test_run_needs_brokers() -> None:
    result = kshadow("run")
    assert result.exit_code == 2
    assert "--bootstrap-server is needed (or KSHADOW_BOOTSTRAP_SERVER)" in result.stderr


def test_a_property_that_was_read_already() -> None:
    """click may convert a value that it has converted before."""
    assert NameValue("property", "NAME=VALUE").convert(("a", "b"), None, None) == ("a", "b")


@pytest.mark.usefixtures("process")
def test_brokers_that_nobody_answers_for() -> None:
    """All at once: each waits for ten seconds."""
    run = ["run", "--listen", "127.0.0.1:0"]
    commands = (run, ["coordinator", "g"], ["describe", "g"], [*run, "--group", "g"])
    processes = [spawn(*command, "--bootstrap-server", "localhost:1") for command in commands]
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (3, b"")
        assert err.startswith(b"Error: ") or b"Error: " in err
        assert b"Traceback" not in err


def test_a_disk_that_is_full_at_first_is_no_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(click.exceptions.Exit) as ended, _errors_reported():
            Spool(tmp_path, size_bytes=1 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ended.value.exit_code == 3
    assert f"spool {tmp_path}: expected a database to read and write: " in capsys.readouterr().err


@pytest.mark.usefixtures("process")
def test_a_file_is_read_again_while_brokers_are_waited_for(tmp_path: Path) -> None:
    """SIGHUP ended a process that was about to start."""
    file = tmp_path / "kshadow.yaml"
    file.write_text("lag-interval: 1m")
    with spawn("--config", file, "run", "--bootstrap-server", "localhost:1", "--listen", "127.0.0.1:0") as process:
        until(lambda: catches(process.pid, signal.SIGHUP))
        file.write_text("lag-interval: 2m")
        process.send_signal(signal.SIGHUP)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 3, said.decode()
    assert b"changed: lag-interval" in said


@pytest.mark.usefixtures("process")
def test_signals_that_come_before_the_file_was_read(tmp_path: Path) -> None:
    """Both ended the process without a word; as the first of a container it did not end at all."""
    file, other = tmp_path / "kshadow.yaml", tmp_path / "other.yaml"
    os.mkfifo(file)
    command = ("--config", file, "run", "--bootstrap-server", "localhost:1", "--listen", "127.0.0.1:0")
    # Open once it is read from.
    with spawn(*command) as process, file.open("w"):
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    waits = f"{file}: a pipe: waiting for whoever writes into it\n".encode()
    assert (process.returncode, said) == (143, waits + b"kshadow: stopping: SIGTERM, before anything was read\n")
    other.write_text("lag-interval: 2m")
    with spawn(*command) as process:
        with file.open("w") as first:
            process.send_signal(signal.SIGHUP)
            other.rename(file)
            first.write("lag-interval: 1m")
        _, said = process.communicate(timeout=60)
    assert process.returncode == 3, said.decode()
    assert b"changed: lag-interval" in said


def test_a_file_for_the_web_server_that_leads_to_itself(tmp_path: Path) -> None:
    (file := tmp_path / "web.yaml").symlink_to("web.yaml")
    result = kshadow("run", "--bootstrap-server", "localhost:1", "--web-config", file)
    assert (result.exit_code, f"web config {file}: Too many levels of symbolic links" in result.stderr) == (2, True)


@pytest.mark.usefixtures("process")
def test_a_pipe_that_tells_of_the_web_server_is_waited_for_and_said_to_be_one(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    os.mkfifo(file)
    command = ("run", "--bootstrap-server", "localhost:1", "--listen", "127.0.0.1:0", "--web-config", file)
    with spawn(*command) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"{file}: a pipe: waiting for whoever writes into it\n".encode()
        file.write_text("nonsense: 1")
        _, said = process.communicate(timeout=60)
    assert (process.returncode, b"nonsense: unknown" in said) == (2, True)


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "Ctrl-C"])
def test_who_waits_for_that_pipe_ends_at_once(number: signal.Signals, code: int, tmp_path: Path) -> None:
    """It took 22 s, or a second signal."""
    file = tmp_path / "web.yaml"
    os.mkfifo(file)
    command = ("run", "--bootstrap-server", "localhost:1", "--listen", "127.0.0.1:0", "--web-config", file)
    # Open once it is read from.
    with spawn(*command) as process, file.open("w"):
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == code


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)],
    ids=["SIGTERM", "Ctrl-C", "SIGHUP"],
)
def test_who_connects_to_brokers_that_are_silent_ends_at_once(number: signal.Signals, code: int) -> None:
    """It tried on for up to 13 s, and ended with 3 and an error."""
    with socket.create_server(("127.0.0.1", 0)) as broker:
        command = ("run", "--bootstrap-server", f"127.0.0.1:{broker.getsockname()[1]}", "--listen", "127.0.0.1:0")
        with spawn(*command) as process:
            broker.settimeout(60)
            connection, _ = broker.accept()
            process.send_signal(number)
            _, said = process.communicate(timeout=60)
            connection.close()
    assert process.returncode == code, said.decode()
    assert said.decode().endswith(f"stopping: {number.name}\n")


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("more", [(), ("--keep-trying",)], ids=["alone", "again"])
def test_who_waits_for_kubernetes_ends_at_once(more: tuple[str, ...], tmp_path: Path) -> None:
    """It was heeded only once the first look at Kubernetes was over, or had taken 10 s."""
    with socket.create_server(("127.0.0.1", 0)) as api_server:
        entries = kubeconfig(token="t")
        entries["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{api_server.getsockname()[1]}"}
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(entries))
        command = ("run", "--bootstrap-server", "localhost:1", "--listen", "127.0.0.1:0", "--kubernetes", *more)
        with spawn(*command, env={"KUBECONFIG": str(tmp_path / "kubeconfig")}) as process:
            api_server.settimeout(60)
            connection, _ = api_server.accept()
            asked = time.monotonic()
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
            took_s = time.monotonic() - asked
            connection.close()
    assert (process.returncode, took_s < FIRST_LOOK_S / 2) == (143, True), said.decode()


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal, as the kernel says."""
    found = re.search(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return bool(int(found[1], 16) >> (number - 1) & 1)


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGHUP, signal.SIGHUP]])
def test_one_that_keeps_trying(signals: list[signal.Signals]) -> None:
    """Alive, not ready, and it says why; asked to end, it has ended well. Of a terminal that goes two tell."""
    command = ("run", "--bootstrap-server", "localhost:1", "--keep-trying", "--listen", "127.0.0.1:0")
    with spawn(*command) as process:
        assert process.stderr is not None
        said = [process.stderr.readline().decode()]
        while "serving " not in said[-1]:
            said.append(process.stderr.readline().decode())
        url = said[-1].split("serving ")[1].strip().removesuffix("/metrics")
        while "trying again" not in said[-1]:
            said.append(process.stderr.readline().decode())
        assert httpx.get(f"{url}/healthz").status_code == 200
        ready = httpx.get(f"{url}/readyz")
        assert (ready.status_code, "localhost:1" in ready.text) == (503, True)
        assert "kshadow_source_healthy 0.0" in httpx.get(f"{url}/metrics").text
        assert httpx.get(f"{url}/api/v1/groups").status_code == 503
        for number in signals:
            process.send_signal(number)
            time.sleep(0.05)
        process.communicate(timeout=30)
    assert process.returncode == 0
