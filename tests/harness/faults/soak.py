"""Half an hour or more of a busy cluster with churn: `python -m tests.harness.faults.soak [--minutes M] [--rate
N] …`.

A writer commits at a rate for many groups that stay as they are; among them live groups of every fate, whose
members come, go, die and are thrown out. Every ten seconds the agent is scraped; its memory, its CPU time and how old
the newest commit is that it shows are noted. In the end its history and its snapshots are compared to one replay of
the whole topic, as in the scenes of faults.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.bench import load as bulk
from tests.harness.bench.measure import usage_of
from tests.harness.bench.tools import SENTINEL
from tests.harness.bench.writing import writing
from tests.harness.faults import truth
from tests.harness.faults.agents import AgentProcess
from tests.harness.faults.load import load, make_topic
from tests.harness.faults.scene import HISTORY

LOOK_S = 10.0
WARM_S = 1500.0
"""What the slope leaves out: samples of each position reach 20 minutes back, and fill until then."""


@dataclass
class Looks:
    """What was seen every few seconds."""

    at_s: list[float] = field(default_factory=list)
    rss_mb: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    age_s: list[float] = field(default_factory=list)
    scrape_s: list[float] = field(default_factory=list)

    def slope(self, values: list[float], warm_s: float = WARM_S) -> float:
        """By how much an hour a value grows, by least squares."""
        pairs = [(at, value) for at, value in zip(self.at_s, values, strict=True) if at >= warm_s]
        if len(pairs) < 3:
            return float("nan")
        return statistics.linear_regression(*zip(*pairs, strict=True)).slope * 3600

    def parts(self, values: list[float], count: int = 6) -> str:
        """The medians of so many equal parts of the time."""
        size = max(len(values) // count, 1)
        return " ".join(f"{statistics.median(values[at : at + size]):.3g}" for at in range(0, size * count, size))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.faults.soak")
    parser.add_argument("--minutes", type=float, default=45.0)
    parser.add_argument("--rate", type=int, default=20_000, help="commits a second")
    parser.add_argument("--groups", type=int, default=2_000, help="that stay, of twenty positions each")
    parser.add_argument("--churning", type=int, default=200, help="groups that live through every fate")
    parser.add_argument("--keep", type=Path, help="where to keep what the agent left")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kshadow-soak-") as directory:
        verdict = soak(given.keep or Path(directory), given.minutes, given.rate, given.groups, given.churning)
    print(f"{'ok   ' if verdict.is_right else 'WRONG'} {verdict}", flush=True)
    return 0 if verdict.is_right else 1


def soak(directory: Path, minutes: float, rate: int, groups: int, churning: int) -> truth.Verdict:
    """Play it."""
    directory.mkdir(parents=True, exist_ok=True)
    shape = bulk.Shape(rounds=1)
    seconds = minutes * 60
    # Nothing is to be cleaned: the replay at the end reads all.
    settings = {"offsets.topic.num.partitions": str(bulk.PARTITIONS), "offsets.topic.segment.bytes": str(2**30)}
    with EmbeddedBroker(fetch_jars(), properties=settings) as kafka:
        servers = kafka.bootstrap_servers
        make_topic(servers)
        ids = bulk.make_topics(servers, shape)
        bulk.write(servers, ids, shape, range(groups))
        options = ("--no-admin", "--no-lag", "--history-topic", HISTORY, "--state-dir", str(directory / "state"))
        agent = AgentProcess(directory, "--bootstrap-server", servers, *options)
        agent.start().wait_ready(120)
        looks = Looks()
        fates = load(servers, seed=1, groups=churning, seconds=seconds, commit_interval_ms=5_000)
        try:
            with fates as playing, writing(servers, shape, groups, rate, seconds, directory) as writer:
                began = time.monotonic()
                while writer.is_at_work:
                    _look(agent, writer, looks, time.monotonic() - began)
                    time.sleep(max(began + len(looks.at_s) * LOOK_S - time.monotonic(), 0.1))
                assert playing.wait(600) == 0
            agent.wait_level(120)
            _tell(looks, writer.rate)
            code = agent.stop()
        finally:
            if agent.is_running:
                agent.kill()
        blobs = truth.snapshots(directory / "state")
        history = truth.history(servers, HISTORY, 300)
        name = f"soak of {minutes:g} minutes"
        verdict = truth.judge(name, servers, blobs, history, log=truth.stream_of(servers))
        verdict.said = f"exit code {code}"
        return verdict


def _look(agent: AgentProcess, writer: object, looks: Looks, at_s: float) -> None:
    assert agent.process is not None
    began = time.monotonic()
    status, _ = agent.get("/metrics", 60)
    took_s = time.monotonic() - began
    assert status == 200, (status, agent.tail())
    offsets = agent.json(f"/api/v1/groups/{SENTINEL}")["offsets"] if at_s > LOOK_S else []
    age_s = writer.age_s(max(row["offset"] for row in offsets)) if offsets else 0.0  # type: ignore[attr-defined]
    usage = usage_of(agent.process.pid)
    looks.at_s.append(at_s)
    looks.rss_mb.append(usage.rss_mb)
    looks.cpu_s.append(usage.cpu_s)
    looks.age_s.append(age_s)
    looks.scrape_s.append(took_s)
    if len(looks.at_s) % 30 == 1:
        print(f"{at_s:6.0f} s: {usage.rss_mb:.0f} MB, age {age_s:.2f} s, scrape {took_s:.2f} s", flush=True)


def _tell(looks: Looks, rate: float) -> None:
    cores = (looks.cpu_s[-1] - looks.cpu_s[0]) / (looks.at_s[-1] - looks.at_s[0])
    print(f"{rate:,.0f} commits/s; {cores:.2f} cores; {len(looks.at_s)} looks; medians of six parts of the time:")
    print(f"memory MB: {looks.parts(looks.rss_mb)}; slope {looks.slope(looks.rss_mb):+.1f} MB an hour")
    print(f"age of what is shown, s: {looks.parts(looks.age_s)}; slope {looks.slope(looks.age_s):+.3f} s an hour")
    print(f"scrape, s: {looks.parts(looks.scrape_s)}; longest {max(looks.scrape_s):.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
