"""How long the page takes where there are many groups: `python -m tests.harness.bench.page_speed [--groups N]`.

A real server over a crowd of groups in memory (`tests.harness.bench.crowd`), some of which rebalance all the time
and have findings open. Prints what a reader waits for, over HTTP on this machine: the first page after a start,
pages, what an open page asks for every three seconds (with news, and without), a group, findings; and how large each
is.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from httpx import Client, Response

from agent.serving.page.fleet import MAX_AGE_S
from analyzers.registry import parse_analyzer_names, select_analyzers
from tests.harness.bench.crowd import Crowd
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, run_of
from tests.unit.presentation.narrative import made as m
from tests.unit.serving.routes.replayed import Replayed, served

T0 = 1_795_000_000_000
ROUNDS = 40
TARGETS_MS = {"page": 100.0, "live": 50.0}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=5_000)
    parser.add_argument("--rebalancing", type=int, default=50, help="groups that rebalance between two looks")
    given = parser.parse_args()
    crowd = Crowd(given.groups, 10, T0)
    # One analyzer that finds nothing here, so that records take the way that they take in an agent.
    chosen = select_analyzers(parse_analyzer_names("static_membership_advice"))
    agent = Replayed(crowd.groups_runs(), chosen=chosen)
    for run in islice(crowd.commits(50, 1_000), given.groups // 5):
        agent.state.replay_batch(run)
    names = crowd.names
    findings = [m.finding(at_ms=T0, group=name, severity=kind) for name, kind in zip(names, _kinds(), strict=False)]
    agent.recent.observe(findings)
    log = _busy(names[0])
    agent.state.replay_batch(run_of(log.records))
    gc.freeze()
    clock = [T0 + 400_000]
    with served(agent, wall_ms=lambda: clock[0]) as url, Client(base_url=url, timeout=60) as http:
        print(f"{given.groups} groups, {len(findings)} findings open; milliseconds, over HTTP; target for the median")
        print(f"{'':40}  median    most     CPU       KiB zipped     plain")
        began = time.perf_counter()
        http.get("/")
        print(f"{'the first page after a start':40}{1000 * (time.perf_counter() - began):8.1f}")
        time.sleep(MAX_AGE_S + 1)
        began = time.perf_counter()
        http.get("/")
        print(f"{'the first page after a pause of 15 s':40}{1000 * (time.perf_counter() - began):8.1f}")
        _times(http, "/", "/", "page")
        _times(http, "/?q=…  (filter as you type)", "/?q=team-07&live=1", "live")
        _times(http, "/?sort=-lag&page=7", "/?sort=-lag&page=7", "page")
        _news(http, agent, crowd, clock, given.rebalancing)
        for _ in range(3):
            http.get("/?live=1")
            time.sleep(1.5)
        _times(http, "/?live=1, nothing new", "/?live=1", "live", known=True)
        _times(http, f"/groups/…  ({len(log.records)} rebalances)", f"/groups/{names[0]}-busy?range=all", "page")
        _times(http, "/groups/…?live=1, nothing new", f"/groups/{names[0]}-busy?live=1", "live", known=True)
        _times(http, "/findings", "/findings", "page")


def _kinds() -> list[str]:
    return ["critical"] * 5 + ["warning"] * 95 + ["info"] * 200


def _busy(group: str) -> Log:
    """A group that rebalances for an hour: as much as is remembered of one."""
    log = Log(partition=0)
    log.now_ms = T0
    for generation in range(1, 241):
        ids = [f"m{at}-{at}" for at in range(4 if generation % 2 else 3)]
        members = [b.member(it, {"t": [at]}) for at, it in enumerate(ids)]
        log.add(b.classic_group(generation, *members, group=f"{group}-busy", state_ms=log.now_ms), after_ms=1_500)
    return log


def _times(http: Client, words: str, path: str, kind: str, *, known: bool = False) -> None:
    answer = http.get(path)
    headers = {"If-None-Match": answer.headers["etag"]} if known else {}

    def ask() -> Response:
        return http.get(path, headers=headers)

    _print(words, kind, [_one(ask) for _ in range(ROUNDS)])


def _news(http: Client, agent: Replayed, crowd: Crowd, clock: list[int], rebalancing: int) -> None:
    """Each time commits came, and some groups rebalanced; a second and more lies between."""
    commits = crowd.commits(50, 1_000)
    log = Log(partition=3)
    taken = []
    for turn in range(12):
        for run in islice(commits, 100):
            agent.state.replay_batch(run)
        log.records.clear()
        log.now_ms = clock[0]
        for group in crowd.names[turn : turn + rebalancing]:
            log.add(b.classic_group(turn + 2, b.member("m-1", {"t": [0]}), group=f"{group}-x", state_ms=clock[0]))
        agent.state.replay_batch(run_of(log.records))
        time.sleep(1.2)
        clock[0] += 1_200
        taken.append(_one(lambda: http.get("/?live=1")))
    _print("/?live=1, with news", "live", taken)


class Taken(NamedTuple):
    """What one answer took: milliseconds by the clock, and of this process (server, client, reader) on its core."""

    wall_ms: float
    cpu_ms: float
    answer: Response


def _one(ask: Callable[[], Response]) -> Taken:
    wall, cpu = time.perf_counter(), time.process_time()
    answer = ask()
    return Taken(1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu), answer)


def _print(words: str, kind: str, taken: list[Taken]) -> None:
    wall, cpu = (statistics.median(column) for column in ([it.wall_ms for it in taken], [it.cpu_ms for it in taken]))
    answer, target = taken[-1].answer, TARGETS_MS[kind]
    verdict = "ok" if wall < target else "ok, but for what else this machine does" if cpu < target else "MISSED"
    sent = int(answer.headers.get("content-length", 0))
    print(
        f"{words:40}{wall:8.1f}{max(it.wall_ms for it in taken):8.1f}{cpu:8.1f}  {answer.status_code}"
        f"{sent / 1024:8.1f}{len(answer.content) / 1024:8.1f}  {target:.0f}: {verdict}"
    )


if __name__ == "__main__":
    main()
