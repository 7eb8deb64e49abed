"""As a process: pipes that break, Ctrl-C, a full disk, memory."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agent.cli import main as entry
from agent.cli.output import EXIT_INTERRUPTED, EXIT_UNREACHABLE, errors_for_terminal
from agent.common import collector
from tests import ROOT
from tests.unit.cli.running import SEGMENTS, environment, spawn
from tests.unit.core.wire.vectors import CAPTURE, OWN, needs


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["decode", OWN, OWN, OWN, OWN], id="1 more than a pipe holds"),
        pytest.param(["decode", OWN, "-o", "json"], id="2"),
        pytest.param(["decode", OWN, "-o", "yaml"], id="3"),
        pytest.param(["decode", OWN, "-o", "table"], id="4"),
        pytest.param(["groups", "--from", SEGMENTS], id="5 less than a buffer"),
        pytest.param(["describe", "ads-eos", "--from", SEGMENTS], id="6"),
        pytest.param(["decode", CAPTURE / "segments"], id="7", marks=needs(CAPTURE)),
        pytest.param(["--help"], id="8"),
        pytest.param(["decode", "--help"], id="9"),
    ],
)
def test_a_reader_that_goes_away(arguments: list[object]) -> None:
    """`| head -1`, and `| true`: quiet, and no failure for `set -o pipefail`."""
    for read_first in (True, False):
        with spawn(*arguments) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            if read_first:
                assert process.stdout.readline()
            process.stdout.close()
            said = process.stderr.read()
        assert (process.returncode, said) == (0, b"")


def test_nobody_reads_the_errors() -> None:
    with spawn("describe", "nobody", "--from", SEGMENTS) as process:
        assert process.stderr is not None
        process.stderr.close()
    assert process.returncode in (0, 1)


def test_ctrl_c_while_python_imports_ends_it_quietly(tmp_path: Path) -> None:
    """As the installed command starts; SIGINT comes as the first module is imported that is not Python's own."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, name = scripts["kshadow"].partition(":")
    (tmp_path / "click.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; from {module} import {name}; sys.exit({name}())", "groups"],
        env=environment(PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}"),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (EXIT_INTERRUPTED, b"", b"")


def test_a_port_in_use_is_told_before_brokers_are_asked() -> None:
    """Not once the topic was read, which may take minutes. Nobody listens at port 1."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        with spawn("run", "--bootstrap-server", "127.0.0.1:1", "--listen", taken) as process:
            _, err = process.communicate()
    assert (process.returncode, err.decode().splitlines()[-1]) == (
        2,
        f"Error: cannot listen on {taken}: Address already in use",
    )


def test_a_web_config_that_cannot_be_is_told_before_brokers_are_asked(tmp_path: Path) -> None:
    web = tmp_path / "web.yml"
    web.write_text("x: 1")
    with spawn("run", "--bootstrap-server", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--web-config", web) as process:
        _, err = process.communicate()
    assert process.returncode == 2
    assert err.decode().splitlines()[-1].startswith(f"Error: web config {web}: x: unknown")


def test_ctrl_c_is_quiet() -> None:
    with spawn("decode", "-", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"key": null, "value": null}\n')
        process.stdin.flush()
        assert process.stdout.readline(), "each record is printed as it comes"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full: Linux has it")
@pytest.mark.parametrize("output", ["json", "ndjson", "yaml", "table"])
def test_a_full_disk(output: str) -> None:
    with open("/dev/full", "wb") as full, spawn("decode", SEGMENTS, "-o", output, stdout=full) as process:
        _, err = process.communicate()
    assert process.returncode == EXIT_UNREACHABLE
    assert err == b"Error: cannot write the output: No space left on device\n"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc/self/status: Linux has it")
def test_decode_holds_no_more_than_a_line(tmp_path: Path) -> None:
    """48 MB of lines take hardly more memory than a fortieth of them, in the formats that stream."""
    key, value = b"\x00\x02\x00\x01g", b"\x00\x09" + bytes(60_000)  # a version of the future: printed as hex
    line = b'{"key": "%s", "value": "%s"}\n' % (key.hex().encode(), value.hex().encode())
    peaks = {}
    for count in (10, 400):
        path = tmp_path / f"{count}.ndjson"
        path.write_bytes(line * count)
        for output in ("ndjson", "json"):
            program = (
                "import re, sys; from agent.cli.main import main\n"
                "try: main(sys.argv[1:])\n"
                "finally: print(*re.findall(r'VmHWM:.* (\\d+)', open('/proc/self/status').read()), file=sys.stderr)"
            )
            done = subprocess.run(
                [sys.executable, "-c", program, "decode", str(path), "-o", output],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment(),
                cwd=ROOT,
                check=False,
            )
            assert done.returncode == 1
            peaks[output, count] = int(done.stderr.split()[-1])
    for output in ("ndjson", "json"):
        assert peaks[output, 400] - peaks[output, 10] < 20_000, "kilobytes"


def test_main_relaxes_the_collector(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    before = gc.get_threshold()
    monkeypatch.setattr(collector, "_is_own_process", False)
    # What a command does as its process ends would end this one as if all tests had passed.
    at_exit: list[object] = []
    monkeypatch.setattr(atexit, "register", lambda it, *_: at_exit.append(it))
    try:
        with pytest.raises(SystemExit) as ended:
            entry.main(["--version"])
        assert at_exit == [gc.freeze, entry._end_process]
        assert gc.get_threshold() == (50_000, 2, 2_500)
        assert collector._is_own_process
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("kshadow, version ")


def test_guarded_in_this_process(capfd: pytest.CaptureFixture[str]) -> None:
    """The same as above where coverage sees it; standard output is given back."""
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        for error, code in ((BrokenPipeError(), 0), (KeyboardInterrupt(), 130)):
            with pytest.raises(Exception, match=str(code)) as raised, errors_for_terminal():
                raise error
            assert getattr(raised.value, "exit_code", None) == code
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
    assert capfd.readouterr().err == ""
