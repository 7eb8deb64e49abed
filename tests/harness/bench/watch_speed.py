"""How fast the full screen is with 5,000 groups: `python -m tests.harness.bench.watch_speed [--groups N]`.

An agent's HTTP answers are served by one process, `kshadow watch` runs on a terminal in another; this one types and
looks. Printed are the parts too, in CPU time: making rows, sorting, drawing. By hand, on a quiet machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agent.cli.tui.app import WatchApp
from agent.cli.tui.fleet import RowCache, build_fleet, sorted_rows
from agent.cli.tui.poller import Poller
from tests.answering import Handler, web_server
from tests.harness.terminal import Terminal, terminal
from tests.unit.cli.tui.made import Answers, row
from tests.unit.presentation.narrative import made as m

CHANGED = 0.05
"""How many of the groups change from one answer to the next."""


def rows(groups: int) -> list[dict[str, Any]]:
    states = ("Stable", "Stable", "Stable", "Empty", "Reconciling")
    return [
        row(
            f"team-{number % 97:02d}.service-{number:05d}",
            state=states[number % 5],
            lag=number * 7 % 100_003,
            members=number % 13,
            partitions=number % 64,
            coordinator_partition=number % 50,
            state_since_ms=time.time_ns() // 1_000_000 - 3_600_000,
        )
        for number in range(groups)
    ]


def change(forms: list[dict[str, Any]]) -> None:
    for form in random.sample(forms, round(CHANGED * len(forms))):
        form["lag"] = random.randrange(100_000)


def findings(forms: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [m.finding("rebalance_storm", group=form["group"]) for form in forms[:: max(len(forms) // 100, 1)]]


def serve(groups: int) -> None:
    """What an agent answers; the address is printed."""
    forms = rows(groups)
    open_now = findings(forms)

    class Agent(Handler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer: object = {"ready": True, "reason": "caught up"}
            if self.path.startswith("/api/v1/groups/"):
                form = forms[0]
                answer = [] if "/timeline" in self.path else {**form, "members": [], "offsets": [], "anomalies": []}
            elif self.path.startswith("/api/v1/groups"):
                change(forms)
                answer = forms
            elif self.path.startswith("/api/v1/findings"):
                answer = open_now
            self.say(200, json.dumps(answer).encode())

    with web_server(Agent) as url:
        print(url, flush=True)
        sys.stdin.read()


@contextmanager
def served(groups: int) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.harness.bench.watch_speed", "--serve", "--groups", str(groups)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def timed(act: Callable[[], object], times: int = 20) -> list[float]:
    out = []
    for _ in range(times):
        began = time.thread_time()
        act()
        out.append(1000 * (time.thread_time() - began))
    return out


def tell(what: str, ms: list[float]) -> None:
    ms = sorted(ms)
    at95 = ms[min(len(ms) - 1, int(len(ms) * 0.95))]
    print(
        f"{what:<58} median {statistics.median(ms):7.1f} ms   95 % {at95:7.1f} ms   most {ms[-1]:7.1f} ms", flush=True
    )


def parts(groups: int) -> None:
    """Without terminal and threads, in CPU time."""
    forms = rows(groups)
    open_now = findings(forms)
    made = build_fleet(forms, open_now, {}, m.T0)
    tell("all rows", timed(lambda: build_fleet(forms, open_now, {}, m.T0)))
    known: RowCache = {}

    def refreshed() -> None:
        change(forms)
        build_fleet(forms, open_now, {}, m.T0, cache=known)

    tell("rows of a later answer", timed(refreshed))
    tell("sort by trouble", timed(lambda: sorted_rows(made.rows)))
    tell("filter", timed(lambda: sorted_rows(made.rows, "t", "service-0012")))
    asyncio.run(frames(forms, open_now))


async def frames(forms: list[dict[str, Any]], open_now: list[dict[str, Any]]) -> None:
    source = Answers()
    source.rows, source.open = forms, open_now
    app = WatchApp(Poller(source, lambda: m.T0), 3600)
    async with app.run_test(size=(140, 45)) as pilot:
        while app.state.fleet is None:
            await pilot.pause(0.05)
        asker = Poller(source, lambda: m.T0)
        asker.poll_fleet()

        def refresh() -> None:
            change(forms)
            app.state.fleet = asker.poll_fleet().fleet
            began = time.thread_time()
            app.redraw_screen()
            took.append(1000 * (time.thread_time() - began))

        took: list[float] = []
        timed(refresh)
        tell("screen's share of a refresh (sort, find changed lines)", took)


def pointed(text: str) -> str | None:
    """The group under the cursor."""
    return next((line[:40] for line in text.split("\n") if line.startswith(">")), None)


def keys(it: Terminal, presses: int) -> list[float]:
    """From a key to the frame in which the cursor is elsewhere."""
    out = []
    for number in range(presses):
        key = "down" if number % 20 < 10 else "up"
        before = pointed(it.text)
        began = time.perf_counter()
        it.type(key)
        it.until(lambda text, before=before: pointed(text) not in (None, before))
        out.append(1000 * (time.perf_counter() - began))
        time.sleep(random.uniform(0.02, 0.12))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=5_000)
    parser.add_argument("--presses", type=int, default=200)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.groups)
        return
    print(f"{arguments.groups} groups, of which {CHANGED:.0%} change with each answer")
    parts(arguments.groups)
    with served(arguments.groups) as url:
        began = time.perf_counter()
        with terminal("watch", "--agent", url, "--interval", "1") as it:
            it.until("● caught up")
            print(f"{'from the command to the first picture':<58} {time.perf_counter() - began:14.2f} s")
            it.type("n")
            it.until("by name")
            tell("key to frame, refreshed every second", keys(it, arguments.presses))
            it.type("/")
            times = []
            for letter in "service-00123":
                began = time.perf_counter()
                it.type(letter)
                it.until(lambda text, letter=letter: f"{letter}”" in text)
                times.append(1000 * (time.perf_counter() - began))
            tell("letter of a filter to frame", times)
            it.type("escape")
            it.until("service-00000")
            it.type("q")
            it.ends()


if __name__ == "__main__":
    main()
