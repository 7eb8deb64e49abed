"""Plays the scene and prints the score: `python -m tests.harness.admin_source [--groups 500]`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

from agent.common import clock
from agent.tools.demo.scenarios import Scenarios
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.admin_source.scene import Bystanders, scenarios
from tests.harness.admin_source.score import BOUNDS, Event, GroupScore, Told, score_group
from tests.harness.bench.measure import cpu_of
from tests.harness.faults.agents import AgentProcess

PROPERTIES = {"group.initial.rebalance.delay.ms": "1000", "offsets.topic.num.partitions": "8"}
WANTED = {"rebalance_storm", "session_timeout", "unbalanced_assignment"}
"""Findings that are to be told where the topic tells them."""
DEPLOY = "shipping-rolling-deploy"
SETTLE_S = 20.0
"""Until what came last is told."""


def main() -> int:
    """Play, score, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.admin_source")
    parser.add_argument("--groups", type=int, default=0, help="other groups that stand there")
    parser.add_argument("--loops", type=int, default=8, help="crashes in the loop")
    parser.add_argument("--rate", type=float, default=None, help="--admin-requests-per-second")
    parser.add_argument("--kafka", default=None, help="the broker's version; the newest tested unless told")
    parser.add_argument("--stall", action="store_true", help="play the demo's stalls as well")
    parser.add_argument("--keep", type=Path, default=None, help="where to write the events")
    options = parser.parse_args()
    with ExitStack() as stack:
        workdir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="admin-source-")))
        jars = fetch_jars() if options.kafka is None else fetch_jars(options.kafka)
        broker = stack.enter_context(EmbeddedBroker(jars, properties=PROPERTIES))
        others = Bystanders(broker.bootstrap_servers, options.groups)
        others.start()
        stack.callback(others.close)
        played = scenarios(options.loops, stall=options.stall)
        players = Scenarios(broker.bootstrap_servers, workdir / "clients", scenarios=played)
        stack.enter_context(players)
        if not options.groups:
            # Without any group there is no topic to read yet.
            others = Bystanders(broker.bootstrap_servers, 1)
            others.start()
            stack.callback(others.close)
        rate = [] if options.rate is None else ["--admin-requests-per-second", str(options.rate)]
        both = ("--bootstrap-server", broker.bootstrap_servers, "--lag-interval", "5s")
        topic = AgentProcess(workdir, *both, "--broker-log", str(broker.log_file), name="topic").start()
        stack.callback(topic.stop)
        admin = AgentProcess(workdir, *both, "--source", "admin", *rate, name="admin").start()
        stack.callback(admin.stop)
        ready_s = topic.wait_ready(120), admin.wait_ready(600)
        print(f"ready after {ready_s[0]:.1f} s (topic), {ready_s[1]:.1f} s (admin)", flush=True)
        since_ms, began, cpu_s = clock.now_ms(), time.monotonic(), (_cpu_s(topic), _cpu_s(admin))
        sent = _sent(admin)
        players.start()
        ends_at = None
        while ends_at is None or time.monotonic() < ends_at:
            others.work()
            time.sleep(0.5)
            for entry in players.new_steps():
                print(f"  {time.monotonic() - began:5.0f} s  {entry.group}: {entry.sentence}", flush=True)
            if ends_at is None and players.done:
                ends_at = time.monotonic() + SETTLE_S
        took_s = time.monotonic() - began
        print(f"\nplayed {took_s:.0f} s; failures: {players.failures or 'none'}")
        requests = (_sent(admin) - sent) / took_s
        load = [(_cpu_s(it) - before) / took_s for it, before in zip((topic, admin), cpu_s, strict=True)]
        print(f"requests a second: {requests:.1f}; CPU: topic {load[0]:.3f}, admin {load[1]:.3f} cores")
        print(f"readyz: {admin.json('/api/v1/status')['reason']}")
        told = {it.group: (_events(topic, it.group), _events(admin, it.group)) for it in played}
        if options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
            (options.keep / "events.json").write_text(json.dumps(told))
            for agent in (topic, admin):
                (options.keep / agent.log.name).write_text(agent.log.read_text())
        scores = [score_group(group, *events, since_ms) for group, events in told.items()]
        return _report(scores)


def _sent(admin: AgentProcess) -> int:
    return int(admin.json("/api/v1/status")["sampling"]["requests_sent"])


def _cpu_s(agent: AgentProcess) -> float:
    assert agent.process is not None
    return cpu_of(agent.process.pid)


def _events(agent: AgentProcess, group: str) -> list[Event]:
    """A group's timeline, findings included."""
    events: list[Event] = agent.json(f"/api/v1/groups/{quote(group, safe='')}/timeline")
    return events


def _report(scores: list[GroupScore]) -> int:
    triggers, departures = Told(), Told()
    print(f"\n{'group':28} {'seen':>9} {'extra':>6} {'triggers':>14} {'departures':>14}  findings")
    for it in scores:
        triggers.add_all(it.triggers)
        departures.add_all(it.departures)
        both = [f"{told.right}/{told.told} of {told.count}" for told in (it.triggers, it.departures)]
        print(
            f"{it.group:28} {it.seen:>4}/{it.rebalances:<4} {it.extra:>6} {both[0]:>14} {both[1]:>14}  "
            f"{', '.join(sorted(it.findings)) or '-'} (topic: {', '.join(sorted(it.true_findings)) or '-'})"
        )
        for line in it.missed:
            print(f"    missed: {line}")
    seen, count = sum(it.seen for it in scores), sum(it.rebalances for it in scores)
    wrong = [*triggers.wrong, *departures.wrong]
    right = f"triggers right {triggers.right_share:.2f}, departures {departures.right_share:.2f}"
    print(f"\nseen {seen} of {count}; {right}")
    print(*(f"  wrong: {line}" for line in wrong), sep="\n")
    problems = []
    if seen < BOUNDS["seen"] * count:
        problems.append("too few rebalances seen")
    if min(triggers.right_share, departures.right_share) < BOUNDS["right"]:
        problems.append("too many causes wrong")
    if sure := [*triggers.sure_and_wrong, *departures.sure_and_wrong]:
        problems.append(f"sure and wrong: {sure}")
    for it in scores:
        if missing := (it.true_findings & WANTED) - it.findings:
            problems.append(f"{it.group}: {sorted(missing)} not told")
        if it.group == DEPLOY and (more := it.findings - it.true_findings):
            problems.append(f"told of a clean deploy: {sorted(more)}")
    print(*problems, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
