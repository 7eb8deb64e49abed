"""`kshadow watch` on a real terminal, over a real agent's HTTP: what is typed, and what is seen."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import takewhile
from urllib.parse import urlsplit

import pytest

from agent.serving.server import serving
from tests.harness.terminal import is_restored, terminal
from tests.unit.cli.hostile import TEXTS, pairs
from tests.unit.cli.running import SEGMENTS
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, run_of
from tests.unit.presentation.narrative import made as m
from tests.unit.serving.routes.replayed import Replayed, of_log, of_path, served

OFTEN = ("--interval", "0.3")


@pytest.fixture(scope="module")
def capture() -> Iterator[str]:
    replayed = Replayed(of_path(SEGMENTS))
    since = m.finding("rebalance_storm", time.time_ns() // 1_000_000 - 90_000, group="pricing-poll")
    replayed.recent.observe([since, m.finding("coordinator_hotspot", severity="critical", group=None)])
    with served(replayed) as url:
        yield url


def rows(text: str) -> list[str]:
    """The first word behind the mark of each line below the headings."""
    _, _, below = text.partition("TROUBLE")
    table = below.partition("Latest")[0].split("\n")[1:]
    return [line[4:].split()[0] for line in takewhile(str.strip, table)]


def test_a_walk(capture: str) -> None:
    with terminal("watch", "--agent", capture, *OFTEN) as it:
        it.until(
            "quota-kstreams",
            "q quit",
            f"kshadow watch  at {capture}",
            "6 groups · 3 findings  ✖C 1 ▲W 1 ●I 1",
            ">✖C (cluster)",
            "▲W pricing-poll",
            lambda text: "● caught up" in text.split("\n")[0],
            lambda text: rows(text)[:3] == ["(cluster)", "pricing-poll", "geo-stream"],
        )
        # In other orders.
        it.type("n")
        it.until("by name", lambda text: rows(text)[1:3] == ["ads-eos", "fraud-848"])
        it.type("s")
        it.until("by rebalances")
        # A filter, while it is typed; a slash in it is a slash.
        it.type("/", "consumer rec")
        it.until("“consumer rec”: 1", lambda text: rows(text) == ["fraud-848"])
        it.type("/")
        it.until("“consumer rec/”: 0", lambda text: rows(text) == [])
        it.type("escape")
        it.until("ads-eos", "fraud-848")
        it.type("/", "pricing")
        it.until("“pricing”: 1")
        it.type("enter")
        it.until(lambda text: rows(text) == ["pricing-poll"])
        # The group: its members' partitions, finding and history.
        it.type("enter")
        it.until(
            "generation 2",
            "q quit",
            "Esc back",
            "▲W rebalance_storm too many rebalances",
            "→ find out who leaves",
            lambda text: re.search(r"pricing-poll-\S+ +3  [■ ·]+", text),
        )
        it.type("e")
        it.until("explained", "What happened")
        it.type("escape")
        it.until("Findings", "Esc back")
        # Smaller and larger.
        it.resize(40, 10)
        it.until("pricing-poll", "Members", lambda text: "q quit" in text.split("\n")[9])
        it.type("tab", "tab")
        it.until("Lag", lambda text: "Members" not in text)
        it.resize(140, 45)
        it.until("Members", "Findings", "generation 2", lambda text: "quit" in text.split("\n")[44])
        it.type("escape")
        it.until("COMMIT", "pricing-poll")
        it.resize(80, 24)
        it.until("“pricing”: 1", lambda text: "q quit" in text.split("\n")[23])
        it.type("escape")
        it.until("by rebalances", lambda text: len(rows(text)) == 7)
        it.type("t")
        it.until("by trouble")
        it.type("f")
        it.until("All open findings", "(cluster): coordinator_hotspot")
        it.type("escape")
        it.until("by trouble")
        it.type("?")
        it.until("rebalances in all")
        it.type("q")
        assert it.ends() == 0
        assert is_restored(it.sent)
        assert it.settings == it.before


def test_what_happens_is_seen_as_it_happens() -> None:
    log = Log()
    log.now_ms = time.time_ns() // 1_000_000 - 30_000
    first = b.member("o-1", {"t": [0, 1]})
    log.add(b.new_group("orders"), b.classic_group(1, first, group="orders", state_ms=log.now_ms))
    replayed = Replayed(of_log(log))
    with served(replayed) as url, terminal("watch", "--agent", url, *OFTEN) as it:
        it.until(
            "Latest",
            "+ generation 1: `o` joined",
            "q quit",
            lambda text: re.search(r"orders +Stable +1 +2 +1 +\+1 ", text),
        )
        it.type("enter")
        it.until("will mark what moves")
        # Another member comes while it is looked at.
        both = (b.member("o-1", {"t": [0]}), b.member("p-2", {"t": [1]}))
        log.add(b.classic_group(2, *both, group="orders", state_ms=log.now_ms))
        replayed.state.replay_batch(run_of(log.records[2:]))
        # Its events may come one answer after its members.
        it.until("generation 2 `p` joined", "moved last (1)", lambda text: re.search(r"p +1  · ?◆", text))
        it.type("escape")
        it.until("generation 2: `p` joined; 2 members")


def test_an_agent_that_goes_and_comes_back() -> None:
    replayed = Replayed(of_path(SEGMENTS))
    with ExitStack() as stack:
        with serving(replayed) as url:
            port = urlsplit(url).port
            assert port is not None
            it = stack.enter_context(terminal("watch", "--agent", url, *OFTEN))
            it.until("● caught up")
        # What was known stays.
        it.until("✖ AWAY", "tried", f"no agent answers at {url}", "pricing-poll")
        it.resize(20, 6)
        it.until("✖ AWAY", "tried", ">", lambda text: "q quit" in text.split("\n")[5])
        it.resize(20, 5)
        it.until("✖ AWAY", ">", lambda text: "q quit" in text.split("\n")[4])
        it.resize(80, 24)
        replayed.has_caught_up = False
        with serving(replayed, port=port):
            it.until("◌ not ready")
            it.type("e")
            it.until("explained", "answered 503", "records to go")
            replayed.has_caught_up = True
            # What was asked for meanwhile is asked for again.
            it.until("explained", "What happened")
            it.type("escape")
            it.until("● caught up")
            it.type("q")
            assert it.ends() == 0


def test_a_mistake_of_ours_is_told_on_a_terminal_that_is_as_before() -> None:
    with terminal(module="tests.live.cli.watch_crashing") as it:
        assert it.ends() == 1
        assert is_restored(it.sent)
        assert it.settings == it.before
        after = it.sent.rpartition(b"\x1b[?1049l")[2].decode()
        assert "RuntimeError: a mistake with \\u001b[2J and a password of 7 letters" in after
        assert "hunter2" not in after, "local variables may be secrets"


def test_hostile_names() -> None:
    log = Log()
    for text in TEXTS.values():
        log.add(*pairs(text[:4_000]))
    replayed = Replayed(of_log(log))
    found = {
        "severity": "critical",
        "summary": TEXTS["1 clears the screen"],
        "advice": TEXTS["9 is the markup of rich"],
    }
    replayed.recent.observe([{**m.finding("x\x1b[2J", group=TEXTS["2 sets the window's title"]), **found}])
    with served(replayed) as url, terminal("watch", "--agent", url, *OFTEN) as it:
        it.until("\\u001b]0;owned\\u0007", "x\\u001b[2J")
        it.type("/", "bold red")
        it.until("“bold red”: 2", "[bold red]x[/] [link")
        it.type("enter", "enter")
        it.until("[bold red]x[/] [link", "Members", "Esc back")
        it.type("e")
        it.until("explained")
        it.type("escape")
        it.until("Members", "Esc back", "pause")
        it.type("escape")
        it.until("“bold red”: 2", "q quit")
        it.type("q")
        assert it.ends() == 0
        for theirs in (
            b"\x1b]0;owned",
            b"evil.example\x1b\\",
            b"\x1b[31m",
            "\u202e".encode(),
            "\u200b".encode(),
            b"\x07b",
        ):
            assert theirs not in it.sent
        assert is_restored(it.sent)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (None, 130)], ids=["term", "int", "ctrl-c"]
)
def test_ends_that_restore_the_terminal(capture: str, number: int | None, code: int) -> None:
    with terminal("watch", "--agent", capture, *OFTEN) as it:
        it.until("pricing-poll")
        if number is None:
            it.type("ctrl+c")
        else:
            it.process.send_signal(number)
        assert it.ends() == code
        assert is_restored(it.sent)
        assert it.settings == it.before


def test_files_without_colours(capture: str) -> None:
    with terminal("watch", "--from", SEGMENTS, NO_COLOR="1") as it:
        it.until("quota-kstreams", lambda text: "◼ still picture of 07:29:29 UTC" in text.split("\n")[0])
        it.type("down", "enter")
        it.until("Members")
        it.type("q")
        assert it.ends() == 0
        assert is_restored(it.sent)
        colours = re.findall(rb"\x1b\[(?:\d+;)*(?:[34][0-8]|9\d|10\d)(?:;\d+)*m", it.sent)
        assert colours == []
        assert re.search(rb"\x1b\[(?:\d+;)*7(?:;\d+)*m", it.sent), "the cursor's line is reversed"


def test_a_terminal_that_can_do_no_more_than_lines(capture: str) -> None:
    with terminal("watch", "--agent", capture, TERM="dumb") as it:
        it.until("From now on")
        it.process.send_signal(signal.SIGINT)
        assert it.ends() == 130
        assert b"\x1b" not in it.sent


def test_no_agent_at_first() -> None:
    with terminal("watch", "--agent", "http://127.0.0.1:1") as it:
        assert it.ends() == 3
        assert "Error: no agent answers at http://127.0.0.1:1" in it.text
        assert b"\x1b[?1049h" not in it.sent
