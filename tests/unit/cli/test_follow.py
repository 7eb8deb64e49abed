"""`--follow`: real processes that watch a real web server, whose group lives on, goes away and comes back."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any
from urllib.parse import urlsplit

import pytest

from agent.common.clock import now_ms
from agent.core.queries import Health, JsonObject
from agent.serving.server import WebServer, serving
from tests.unit.cli.running import SEGMENTS, kshadow, spawn
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, run_of
from tests.unit.presentation.narrative import made as m
from tests.unit.serving.routes.replayed import Replayed

DEADLINE_S = 90


class Live:
    """A mirror that reads on."""

    def __init__(self) -> None:
        self.log = Log()
        self.replayed = Replayed([])

    def add(self, *batch: b.Pair, after_ms: int = b.STEP_MS) -> None:
        before = len(self.log.records)
        self.log.add(*batch, after_ms=after_ms)
        self.replayed.state.replay_batch(run_of(self.log.records[before:]))


class Following:
    """A command that goes on, and what it printed."""

    def __init__(self, *arguments: object, **env: str) -> None:
        self.process = spawn(*arguments, "--follow", "--interval", "0.1", env=env)
        self._lines: dict[str, queue.Queue[str]] = {"stdout": queue.Queue(), "stderr": queue.Queue()}
        self._threads = [
            threading.Thread(target=self._pump, args=(name, getattr(self.process, name))) for name in self._lines
        ]
        for thread in self._threads:
            thread.start()

    def _pump(self, name: str, stream: IO[bytes]) -> None:
        for line in stream:
            self._lines[name].put(line.decode())

    def line(self, stream: str = "stdout") -> str:
        return self._lines[stream].get(timeout=DEADLINE_S)

    def left(self, stream: str) -> list[str]:
        return [self._lines[stream].get_nowait() for _ in range(self._lines[stream].qsize())]

    def end(self, number: int = signal.SIGKILL) -> int:
        self.process.send_signal(number)
        code = self.process.wait(DEADLINE_S)
        for thread in self._threads:
            thread.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code


@contextmanager
def following(*arguments: object, **env: str) -> Iterator[Following]:
    it = Following(*arguments, **env)
    try:
        yield it
    finally:
        if it.process.returncode is None:
            it.end()


def generation(number: int, *clients: str) -> b.Pair:
    return b.classic_group(number, *(b.member(it, {"t": [at]}) for at, it in enumerate(clients)), group="g")


@pytest.mark.usefixtures("process")
def test_a_group_that_lives_on() -> None:
    live = Live()
    live.add(b.new_group("g"), generation(1, "m-1"))
    live.replayed.recent.observe([m.finding("idle_members", live.log.now_ms, group="g")])
    with (
        serving(live.replayed) as url,
        following("timeline", "g", "--agent", url, "-o", "ndjson", "--event", "rebalance") as events,
        following("groups", "--agent", url) as groups,
        following("lag", "g", "--agent", url, "-o", "ndjson") as lag,
        following("findings", "--agent", url, "-o", "ndjson") as found,
    ):
        assert json.loads(events.line())["generation"] == 1
        assert groups.line().split()[:3] == ["SEEN", "GROUP", "TYPE"]
        assert groups.line().split()[2:6] == ["g", "classic", "Stable", "1"]
        assert json.loads(lag.line())["lag_note"] == "not_committed"
        assert json.loads(found.line())["analyzer"] == "idle_members"
        live.add(generation(2, "m-1", "m-2"))
        assert json.loads(events.line())["generation"] == 2
        assert groups.line().split()[4:6] == ["Stable", "2"]
        assert json.loads(lag.line())["partition"] == 1
        _away_and_back(live, (events, groups, lag, found))


def _away_and_back(live: Live, followers: tuple[Following, ...]) -> None:
    live.replayed.has_caught_up = False  # as an agent that was started again
    for it in followers:
        assert it.line("stderr") == "(catching up with the topic's end: 12 records to go; waiting for it)\n"
    live.replayed.has_caught_up = True
    live.add(generation(3, "m-2"))
    events, groups, lag, found = followers
    assert json.loads(events.line())["generation"] == 3
    assert groups.line().split()[4:6] == ["Stable", "3"]
    for it in followers:
        assert it.end(signal.SIGINT) == 130
        assert it.left("stderr") == []
    assert lag.left("stdout") == found.left("stdout") == []


class OfTwoClusters(Replayed):
    """Two clusters that have the same groups; those of the second can be gone."""

    second_is_empty = False

    def groups(self) -> list[JsonObject]:
        clusters = ("eu",) if self.second_is_empty else ("eu", "us")
        return [{**row, "cluster": it} for row in super().groups() for it in clusters]


@pytest.mark.usefixtures("process")
def test_groups_of_the_same_name_in_two_clusters() -> None:
    live = Live()
    live.replayed = OfTwoClusters([])
    live.add(b.new_group("g"), generation(1, "m-1"))
    live.replayed.recent.observe([m.finding("idle_members", live.log.now_ms, group="g", cluster="us")])
    with (
        serving(live.replayed) as url,
        following("groups", "--agent", url) as groups,
        following("findings", "--agent", url) as found,
    ):
        assert groups.line().split()[:3] == ["SEEN", "CLUSTER", "GROUP"]
        assert {tuple(groups.line().split()[2:4]) for _ in range(2)} == {("eu", "g"), ("us", "g")}
        assert "CLUSTER  GROUP" in found.line()
        assert "us       g" in found.line()
        live.replayed.second_is_empty = True
        assert groups.line().split()[2:6] == ["us", "g", "classic", "Dead"]
        assert [line.split()[:2] for line in kshadow("groups", "--agent", url).stdout.splitlines()] == [
            ["CLUSTER", "GROUP"],
            ["eu", "g"],
        ]
        assert "CLUSTER  GROUP" in kshadow("findings", "--agent", url).stdout


@pytest.mark.usefixtures("process")
def test_what_comes_after_an_event_that_is_dated_ahead() -> None:
    live = Live()
    live.add(b.new_group("g"), generation(1, "m-1"))
    ahead_ms = 3_600_000
    live.add(generation(2, "m-1", "m-2"), after_ms=now_ms() + ahead_ms - live.log.now_ms)
    with (
        serving(live.replayed) as url,
        following("timeline", "g", "--agent", url, "-o", "ndjson", "--event", "rebalance") as events,
    ):
        assert [json.loads(events.line())["generation"] for _ in range(2)] == [1, 2]
        live.add(generation(3, "m-2"), after_ms=-ahead_ms)
        assert json.loads(events.line())["generation"] == 3


@pytest.mark.usefixtures("process")
def test_a_name_that_the_outputs_encoding_does_not_have() -> None:
    live = Live()
    live.add(b.new_group("gr\u00fcn"))
    with (
        serving(live.replayed) as url,
        following("groups", "--agent", url, "-o", "ndjson", PYTHONIOENCODING="ascii") as groups,
    ):
        assert json.loads(groups.line())["group"] == "gr\u00fcn"


class LosesTouch(Replayed):
    """Ready as a question is asked, and no longer as it is answered."""

    armed = False

    def ready(self) -> Health:
        health = super().ready()
        if self.armed:
            self.armed = self.has_caught_up = False
        return health


@pytest.mark.usefixtures("process")
def test_an_agent_that_is_no_longer_ready_says_why_whichever_answer_tells_first() -> None:
    replayed = LosesTouch([])
    replayed.recent.observe([m.finding("idle_members", 0, group="g")])
    with serving(replayed) as url, following("findings", "--agent", url) as found:
        assert found.line().split()[0] == "SINCE"
        replayed.armed = True
        assert found.line("stderr") == "(catching up with the topic's end: 12 records to go; waiting for it)\n"
        replayed.has_caught_up = True
        found.end()
        assert found.left("stderr") == []


@pytest.mark.usefixtures("process")
def test_an_agent_that_cannot_read_has_nothing_new_to_tell_and_says_so() -> None:
    live = Live()
    live.add(b.new_group("g"), generation(1, "m-1"))
    with serving(live.replayed) as url, following("groups", "--agent", url) as groups:
        assert groups.line().split()[0] == "SEEN"
        assert groups.line().split()[2] == "g"
        live.replayed.stopped_why = "reading has stopped: no partition has a leader"
        assert groups.line("stderr") == "(reading has stopped: no partition has a leader; waiting for it)\n"
        live.replayed.stopped_why = None
        live.add(generation(2, "m-1", "m-2"))
        assert groups.line().split()[4:6] == ["Stable", "2"]
        groups.end()
        assert groups.left("stderr") == []


@pytest.mark.usefixtures("process")
def test_an_agent_that_ends_and_is_started_again() -> None:
    live = Live()
    live.add(b.new_group("g"), generation(1, "m-1"))
    with ExitStack() as stack:
        server = WebServer(live.replayed, "127.0.0.1", 0).start()
        stack.callback(lambda: server.stop())
        url, port = server.url, urlsplit(server.url).port or 0
        it = stack.enter_context(following("timeline", "g", "--agent", url, "--event", "rebalance"))
        assert it.line().split() == ["AT", "EVENT", "WHAT", "COST"]
        assert "generation 1" in it.line()
        server.stop()
        assert "no agent answers at" in it.line("stderr")
        live.add(generation(2, "m-1", "m-2"))
        server = WebServer(live.replayed, "127.0.0.1", port).start()
        assert "generation 2" in it.line()
        it.end()
        assert it.left("stderr") == []


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize(
    ("command", "first"),
    [("groups --follow --interval 0.1 -o ndjson", b"{"), ("watch --plain", b"kshadow watch ")],
)
def test_a_reader_that_goes_away(command: str, first: bytes) -> None:
    """Also where nothing more is to be said."""
    live = Live()
    live.add(b.new_group("g"), generation(1, "m-1"))
    with serving(live.replayed) as url:
        process = spawn(*command.split(), "--agent", url)
        head = subprocess.run(
            ["head", "-n1"], stdin=process.stdout, capture_output=True, timeout=DEADLINE_S, check=True
        )
        assert process.stdout is not None
        process.stdout.close()
        try:
            assert head.stdout.startswith(first)
            assert process.wait(DEADLINE_S) == 0
            assert process.stderr is not None
            assert process.stderr.read() == b""
        finally:
            process.kill()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()


# 1-7: what does not go with it.
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["groups", "--from", str(SEGMENTS)], "--follow goes with --agent and --bootstrap-server"),  # 1
        (["groups", "--agent", "http://localhost:1", "-o", "json"], "-o table or -o ndjson, not json"),  # 2
        (["timeline", "g", "--agent", "http://localhost:1", "--until", "1h"], "--until is for what is over"),  # 3
        (["lag", "g", "--agent", "http://localhost:1", "--sort-by", "lag"], "--sort-by is for what is over"),  # 4
        (["groups", "--agent", "http://localhost:1", "-X", "a=b"], "--property goes with --bootstrap-server"),  # 5
        (["groups"], "exactly one of"),  # 6
        # 7: greater than no bound and less than none, and no time can be waited for so long
        (["groups", "--agent", "http://localhost:1", "--interval", "nan"], "expected a number, got 'nan'"),
    ],
)
def test_refusals(arguments: list[str], said: str) -> None:
    result = kshadow(*arguments, "--follow")
    assert (result.exit_code, result.stdout, said in result.stderr) == (2, "", True)


def test_nobody_there() -> None:
    result = kshadow("groups", "--agent", "http://localhost:1", "--follow")
    assert (result.exit_code, "no agent answers" in result.stderr) == (3, True)
    unknown: Any = Live()
    with serving(unknown.replayed) as url:
        assert kshadow("timeline", "x", "--agent", url, "--follow").exit_code == 1
