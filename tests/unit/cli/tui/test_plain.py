"""`kshadow watch --plain`: lines, through a pipe and in this process."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agent.cli.answers import SourceAway
from agent.cli.tui.plain import watch_as_lines
from agent.cli.tui.poller import Poller
from agent.core.queries import Health
from agent.presentation.narrative.timeline import timeline_entries
from agent.serving.server import serving
from tests.unit.cli.running import SEGMENTS, kshadow, lines, ndjson, spawn
from tests.unit.cli.test_decode import line
from tests.unit.cli.tui import made
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, run_of
from tests.unit.presentation.narrative import made as m
from tests.unit.serving.routes.replayed import Replayed, of_log


class Over(Exception):
    """The scene is."""


def told(source: made.Answers, *acts: Callable[[], None]) -> list[list[str]]:
    """The lines of the first round, and those after each act."""
    out: list[list[str]] = [[]]
    left = iter(acts)

    def wait(_: float) -> None:
        act = next(left, None)
        if act is None:
            raise Over
        out.append([])
        source.now_ms += 2_000
        act()

    with pytest.raises(Over):
        watch_as_lines(Poller(source, lambda: source.now_ms), 2, lambda text: out[-1].append(text), wait)
    return out


def test_what_changes_is_said_once() -> None:
    source = made.Answers()
    source.rows = [made.row("a"), made.row("b", state="Empty", members=0, partitions=0), made.row("evil\x1b[2J")]
    rebalance = m.event(
        "rebalance",
        m.T0 + 3_000,
        group="a",
        generation=2,
        previous_generation=1,
        cause="session_timeout",
        causes=["session_timeout"],
        confidence=0.97,
        evidence=[],
        observed=True,
        joined=[],
        left=[m.gone("x", "session_timeout")],
        protocol="range",
        members=1,
        sync_ms=None,
        join_ms=None,
        stopped_partition_ms=7_600,
    )
    storm = m.finding("rebalance_storm", m.T0 + 4_000, group="a")

    def rebalances() -> None:
        source.events["a"] = [rebalance]
        source.rows[0] = made.row("a", generation=2, rebalances=2, members=1)

    def opens() -> None:
        source.open = [storm]

    def closes() -> None:
        source.open = []
        source.rows[1] = made.row("b", state="Dead", members=0, state_since_ms=m.T0 + 9_000)
        del source.rows[2]
        source.rows.append(made.row("new\u202e"))

    def goes() -> None:
        source.away = SourceAway("no agent answers at \x1b]0;x\x07")

    def comes() -> None:
        source.away = None

    first, nothing, second, third, fourth, fifth, again, sixth = told(
        source, lambda: None, rebalances, opens, closes, goes, lambda: None, comes
    )
    assert first == [
        "kshadow watch at a test, at 2026-09-21 14:13:20 UTC. Source: caught up.",
        "3 groups, no open findings.",
        "3 groups without trouble: 1 Empty, 2 Stable.",
        "From now on, one line for each change; times are UTC.",
    ]
    assert nothing == again == []
    (said,) = timeline_entries([rebalance])
    assert second == [f"14:13:23 a: rebalance, {said.text}; partitions stopped for 7.6 s"]
    assert "`x` was removed because its session timed out" in said.text
    assert third == [
        "14:13:24 a: finding opened: warning: rebalance_storm: too many rebalances Advice: find out who leaves"
    ]
    assert sorted(fourth) == [
        "14:13:20 new\\u202e: group appeared: Stable, 2 members",
        "14:13:28 a: finding closed after 4.0 s: rebalance_storm",
        "14:13:28 evil\\u001b[2J: group is gone",
        "14:13:29 b: state Dead, was Empty; no members",
    ]
    assert fifth == ["14:13:30 AWAY: no agent answers at \\u001b]0;x\\u0007"]
    assert sixth == ["14:13:34 answers again"]


def test_findings_of_several_clusters_are_told_with_theirs() -> None:
    source = made.Answers()
    source.rows = [made.row("g", cluster="eu"), made.row("g", cluster="us")]

    def opens() -> None:
        source.open = [m.finding("idle_members", m.T0, group="g", cluster="us")]

    def closes() -> None:
        source.open = []

    _, opened, closed = told(source, opens, closes)
    assert [it[:25] for it in (*opened, *closed)] == ["14:13:20 us/g: finding op", "14:13:24 us/g: finding cl"]
    source.rows = [made.row("g")]  # of one cluster that has a name: only its events have it
    _, opened = told(source, opens)
    assert [it[:22] for it in opened] == ["14:13:20 g: finding op"]


def test_groups_of_a_cluster_that_is_read_anew_are_not_gone() -> None:
    """While it is, an agent of several clusters tells of the others alone."""
    source = made.Answers()
    rows = [made.row("g", cluster="eu"), made.row("g", cluster="us"), made.row("h", cluster="us")]
    storm = m.finding("rebalance_storm", m.T0, group="g", cluster="us")
    source.rows, source.open = rows, [storm]

    def is_read_anew() -> None:
        source.rows, source.open, source.health = rows[:1], [], Health(False, "cluster us: catching up")

    def was_read() -> None:
        source.rows, source.open, source.health = rows[:2], [storm], Health(True, "caught up")

    _, meanwhile, then, after = told(source, is_read_anew, lambda: None, was_read)
    assert (meanwhile, then, after) == ([], [], ["14:13:26 us/h: group is gone"])


def test_many_rebalances_at_once_ask_for_few() -> None:
    source = made.Answers()
    source.rows = [made.row(f"g{number:02d}") for number in range(60)]

    def all_rebalance() -> None:
        source.rows = [made.row(f"g{number:02d}", rebalances=3, generation=3) for number in range(60)]
        source.rows[58]["generation"] = -1  # not known

    _, after = told(source, all_rebalance)
    assert len(after) == 60
    assert len(source.asked) <= 2 * 25
    assert "14:13:20 g59: rebalanced twice; now Stable, generation 3" in after
    assert "14:13:20 g58: rebalanced twice; now Stable" in after


def test_files_are_told_once() -> None:
    result = kshadow("watch", "--from", SEGMENTS, "--plain")
    assert (result.exit_code, result.stderr) == (0, "")
    first, second, *rest = lines(result)
    assert first.endswith(f"{SEGMENTS}, a still picture of 2026-11-21 07:29:29 UTC.")
    assert second == "6 groups, 1 open finding: 1 info."
    assert rest[0] == "geo-stream: Empty, no members, no partitions, 2 rebalances in the last 10 min"
    assert rest[1].startswith("geo-stream: info: session_timeout, as of 07:28:46: 1 session timed out within 1 h: ")


def test_records_without_times_are_of_no_time(tmp_path: Path) -> None:
    log = Log().add(b.classic_group(1, b.member("m"))).add(b.classic_group(2, b.member("m"), b.member("n")))
    path = ndjson(tmp_path / "timeless.ndjson", *(line(it.key, it.value) for it in log.records))
    first, second, *rest = lines(kshadow("watch", "--from", path, "--plain"))
    assert first.endswith(f"{path}, a still picture of an unknown time.")
    assert (second, rest) == ("1 group, no open findings.", ["1 group without trouble: 1 Stable."])


@pytest.mark.usefixtures("process")
def test_through_a_pipe() -> None:
    log = Log()
    log.now_ms = time.time_ns() // 1_000_000 - 30_000
    first = b.member("o-1", {"t": [0, 1]})
    log.add(b.new_group("orders"), b.classic_group(1, first, group="orders", state_ms=log.now_ms))
    replayed = Replayed(of_log(log))
    with serving(replayed) as url:
        port = urlsplit(url).port
        assert port is not None
        with spawn("watch", "--agent", url, "--interval", "0.2") as process:
            assert process.stdout is not None
            try:
                head = [process.stdout.readline().decode() for _ in range(4)]
                assert head[0].startswith(f"kshadow watch at {url}, at 20")
                assert head[1] == "1 group, no open findings.\n"
                assert head[2] == "orders: Stable, 1 member, 2 partitions, 1 rebalance in the last 10 min\n"
                assert head[3].startswith("From now on")
                log.add(b.classic_group(2, first, b.member("p-2", {}), group="orders", state_ms=log.now_ms))
                replayed.state.replay_batch(run_of(log.records[2:]))
                line = process.stdout.readline().decode()
                assert " orders: rebalance, generation 2: `p` joined; 2 members; " in line
                process.send_signal(signal.SIGINT)
                assert process.wait(60) == 130
                assert process.stdout.read() == b""
            finally:
                process.kill()
        # A reader that has enough.
        with spawn("watch", "--agent", url, "--interval", "0.2", "--plain") as process:
            assert process.stdout is not None
            try:
                process.stdout.readline()
                process.stdout.close()
                log.add(b.classic_group(3, first, group="orders", state_ms=log.now_ms))
                replayed.state.replay_batch(run_of(log.records[3:]))
                assert process.wait(60) == 0
            finally:
                process.kill()


def test_an_agent_that_is_not_there() -> None:
    result = kshadow("watch", "--agent", "http://127.0.0.1:1", "--plain")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith("Error: no agent answers at http://127.0.0.1:1: ")
    none = kshadow("watch")
    assert none.exit_code == 2
    assert "exactly one of --from, --bootstrap-server, --agent is needed" in none.stderr
    assert kshadow("watch", "--agent", "http://127.0.0.1:1", "--interval", "0").exit_code == 2
