"""What shells are offered: by click's machinery, and in those that are here."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from agent.cli.main import cli
from agent.cli.shells import SHELLS, register
from tests.unit.cli.running import NO_CONTEXT, SEGMENTS, environment, kshadow
from tests.unit.cli.test_agent import answering
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log
from tests.unit.serving.routes.replayed import Replayed, of_log, of_path, served

GROUPS = ["ads-eos", "fraud-848", "geo-stream", "ledger-share", "pricing-poll", "quota-kstreams"]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def offered(line: str, cache: Path, **env: str) -> list[str]:
    """What bash would be told of a line."""
    register()
    asked = {"_KSHADOW_COMPLETE": "bash_complete", "KSHADOW_LINE": line, "XDG_CACHE_HOME": str(cache), **env}
    unset = {name: None for name in os.environ if name.startswith("KSHADOW_")}
    # Under the name that its users call it by: click's variable has it in it.
    result = CliRunner().invoke(cli, [], env={**unset, **NO_CONTEXT, **asked}, prog_name="kshadow")
    assert result.exit_code == 0
    return [it.partition(",")[2] for it in result.stdout.splitlines() if it.startswith("plain,")]


# What stands on the line, and what is offered.
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kshadow d", ["demo", "decode", "describe", "doctor"]),  # 1
        ("kshadow groups --bo", ["--bootstrap-server"]),  # 2
        ("kshadow groups -o y", ["yaml"]),  # 3
        ("kshadow groups --output=nd", ["ndjson"]),  # 4: click's value alone; bash keeps what is before the =
        ("kshadow findings --severity w", ["warning"]),  # 5
        ("kshadow findings --analyzer rebalance_s", ["rebalance_storm"]),  # 6
        ("kshadow replay x --analyzers none,rebalance_s", ["none,rebalance_storm"]),  # 7
        ("kshadow analyzers rebalance_s", ["rebalance_storm"]),  # 8
        ("kshadow completion z", ["zsh"]),  # 9
        ("kshadow context se", ["set"]),  # 10
        (f"kshadow describe --from {SEGMENTS} ", GROUPS),  # 11
        (f"kshadow findings --from {SEGMENTS} --group f", ["fraud-848"]),  # 12
        (f"KSHADOW_X=1 kshadow timeline --since 2h --from '{SEGMENTS}' f", ["fraud-848"]),  # 13
        ("kshadow describe ", []),  # 15: no source
        ("kshadow describe --from /nowhere ", []),  # 16: a source that is none
        ("kshadow describe --agent http://localhost:1 ", []),  # 17
        ("kshadow describe 'ab", []),  # 18: an open quote
    ],
)
def test_a_line(line: str, expected: list[str], cache: Path) -> None:
    assert offered(line, cache) == expected


def test_options_are_read_as_before_by_a_process_that_completed(cache: Path) -> None:
    # Types that complete once took any text, and tests that came behind these in the same process failed.
    for line, options in (("findings --group ", ("--group", "--analyzer")), ("replay --group ", ("--analyzers",))):
        offered(f"kshadow {line}", cache)
        found = cli.get_command(click.Context(cli, **cli.context_settings), line.split()[0])
        assert found is not None
        by_name = {parameter.opts[-1]: parameter for parameter in found.params}
        for option in options:
            assert by_name[option].type.convert("a", by_name[option], None) == "a"
            with pytest.raises(click.UsageError):
                by_name[option].type.convert("", by_name[option], None)


def test_groups_of_a_context(cache: Path, tmp_path: Path) -> None:
    contexts = tmp_path / "contexts.yaml"
    contexts.write_text(
        f"current: here\ncontexts: {{here: {{from: {SEGMENTS}}}, there: {{agent: 'http://localhost:1'}}}}\n"
    )
    env = {"KSHADOW_CONTEXTS": str(contexts)}
    assert offered("kshadow lag f", cache, **env) == ["fraud-848"]
    assert offered("kshadow --context there lag f", cache, **env) == []
    assert offered("kshadow lag --agent http://localhost:1 f", cache, **env) == []
    assert (
        offered("kshadow --context ", cache, **env)
        == offered("kshadow context use ", cache, **env)
        == ["here", "there"]
    )
    contexts.write_text("[")
    assert offered("kshadow lag f", cache, **env) == offered("kshadow --context ", cache, **env) == []


def test_names_are_kept_for_a_while(cache: Path) -> None:
    with served(Replayed(of_path(SEGMENTS))) as url:
        assert offered(f"kshadow describe --agent {url} g", cache) == ["geo-stream"]
    # Nobody answers any more.
    assert offered(f"kshadow describe --agent {url} a", cache) == ["ads-eos"]
    assert offered(f"kshadow describe --agent {url} --agent-user me a", cache) == []
    (kept,) = (cache / "kshadow" / "completion").iterdir()
    assert kept.stat().st_mode & 0o77 == 0
    os.utime(kept, (time.time() - 100, time.time() - 100))
    assert offered(f"kshadow describe --agent {url} a", cache) == []


@pytest.mark.parametrize(
    "text",
    ["a b", "a;b", "$(a)", "a\nb", "\x1b[2J", "'", '"', "`a`", "a|b", "*", "a\\", "~", "-o", "\u202ea", "%self"],
)
def test_hostile_names_are_not_offered(text: str, cache: Path) -> None:
    with served(Replayed(of_log(Log().add(b.new_group(text)).add(b.new_group("größe"))))) as url:
        assert offered(f"kshadow describe --agent {url} ", cache) == ["größe"]


def test_what_is_no_agent(cache: Path) -> None:
    for body in (b"<html>", b"[{}]", b'{"a": 1}'):
        with answering(200, body) as url:
            assert offered(f"kshadow describe --agent {url} ", cache) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts(shell: str, tmp_path: Path) -> None:
    result = kshadow("completion", shell)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "_KSHADOW_COMPLETE" in result.stdout
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here: its script is click's own, which is tried there")
    (tmp_path / "script").write_text(result.stdout)
    subprocess.run([program, "-n", tmp_path / "script"], check=True, timeout=60)


BEGINNINGS = {
    "bash": (["--noprofile", "--norc", "-i"], "source <(kshadow completion bash)"),
    "zsh": (["-f", "-i"], "autoload -Uz compinit; compinit -u -D; source <(kshadow completion zsh)"),
    "fish": (["--no-config", "-i"], "kshadow completion fish | source"),
}
"""By shell: how it is started without anybody's configuration, and what sets completion up."""


class Terminal:
    """An interactive shell on a terminal of its own."""

    def __init__(self, shell: str, env: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 400, 0, 0))
        # Not only on a terminal but in charge of it: fish wants that.
        command = ["setsid", "--ctty", shell, *BEGINNINGS[shell][0]]
        self._process = subprocess.Popen(command, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.sent = ""

    def types(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def waits_for(self, text: str, deadline_s: float = 90) -> None:
        """Until that was shown since the last time."""
        end = time.monotonic() + deadline_s
        while text not in self.sent:
            assert time.monotonic() < end, self.sent
            if select.select([self._ours], [], [], 0.1)[0]:
                self.sent += os.read(self._ours, 1 << 16).decode(errors="replace")
        self.sent = self.sent.partition(text)[2]

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)


@pytest.fixture(params=BEGINNINGS)
def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    if shutil.which(request.param) is None:
        pytest.skip(f"no {request.param} here")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = environment(PATH=path, XDG_CACHE_HOME=str(tmp_path), TERM="dumb", PS1="> ", HOME=str(tmp_path))
    made = Terminal(request.param, env)
    try:
        made.types(f"{BEGINNINGS[request.param][1]}; echo rea''dy\n")
        made.waits_for("ready\r\n")
        yield made
    finally:
        made.end()


def test_a_real_shell(terminal: Terminal, tmp_path: Path) -> None:
    """Marks that bash parts words at stand in the address and in the name."""
    log = Log().add(b.new_group("pay:eu=1")).add(b.new_group("other")).add(b.new_group("pay;echo oh-no"))
    with served(Replayed(of_log(log))) as url:
        # Completion waits for an answer no longer than somebody who types does, then it takes what it had before: so
        # there is something, however busy the machine is.
        while not offered(f"kshadow describe --agent {url} pa", tmp_path):
            pass
        terminal.types(f"kshadow descr\t--agent {url} pa\t-o nd\t\n")
        terminal.waits_for('"group":"pay:eu=1"')
        terminal.types(f"kshadow describe pay:eu --agent={url} -o json || echo no''ne\n")
        terminal.waits_for("none\r\n")
        terminal.types(f"kshadow members --agent={url} pay:e\t-o j\t && echo do''ne\n")
        terminal.waits_for("[]\r\ndone\r\n")
