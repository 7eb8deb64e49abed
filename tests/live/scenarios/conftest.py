"""A broker of each version with its agent, its yardstick and its clients; and the count of comparisons at the end."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.kafka.writer.topic import partition_count
from agent.runtime.parts import AgentOptions
from agent.tools.embedded import EmbeddedBroker, Jars, fetch_jars, fetch_tools
from tests import seed
from tests.live.scenarios.comparing import Comparison, WatchedAgent, compare, settled_facts
from tests.live.scenarios.fleet import Fleet
from tests.live.scenarios.playing import Performance, play
from tests.live.scenarios.scenarios import Expected, Stage
from tests.live.scenarios.yardstick import Facts, Yardstick
from tests.live.versions import COORDINATORS

SEED = seed()

EXTRA = tuple(f"org.apache.kafka:{name}" for name in ("kafka-streams-examples", "connect-runtime", "connect-file"))
PARTITIONS = 8
PROPERTIES = {
    "offsets.topic.num.partitions": str(PARTITIONS),
    # Members of these types are told by the broker how long they may be silent.
    **{f"group.{kind}.session.timeout.ms": "5000" for kind in ("consumer", "share", "streams")},
    **{f"group.{kind}.heartbeat.interval.ms": "400" for kind in ("consumer", "share", "streams")},
    "group.consumer.regex.refresh.interval.ms": "10000",
    # A group that holds nothing any more is deleted when the broker next looks for expired offsets.
    "offsets.retention.check.interval.ms": "3000",
    # Everything into segments that are rolled and cleaned, as it is where agents are at work for long.
    "offsets.topic.segment.bytes": "1048576",
}


@dataclass
class Tally:
    """What was compared on one version."""

    version: str
    total: int = 0
    rounds: int = 0
    groups: set[str] = field(default_factory=set)
    kinds: dict[str, int] = field(default_factory=dict)
    differences: int = 0
    excused: int = 0

    def add(self, comparison: Comparison) -> None:
        self.total += comparison.total
        self.rounds += 1
        self.groups |= comparison.compared.keys()
        self.differences += len(comparison.all_differences())
        self.excused += len(comparison.excused)
        for kind, count in comparison.kinds.items():
            self.kinds[kind] = self.kinds.get(kind, 0) + count

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds.items(), key=lambda it: -it[1]))
        return (
            f"{self.version}: {self.total:,} comparisons over {len(self.groups)} groups in {self.rounds} rounds, "
            f"{self.differences} differences, {self.excused} more behind an open transaction ({kinds})"
        )


TALLIES: dict[str, Tally] = {}


@dataclass
class Cluster:
    """A broker with everything around it."""

    version: str
    broker: EmbeddedBroker
    jars: Jars
    yardstick: Yardstick
    fleet: Fleet
    stage: Stage
    agent: WatchedAgent
    tally: Tally
    poisoned: bool = False

    @property
    def conf(self) -> dict[str, str]:
        return {"bootstrap.servers": self.broker.bootstrap_servers}

    def compare(self, expected: Expected | None = None, timeout_s: float = 90) -> Comparison:
        """All groups, by the agent that was there all the time, once they are settled."""
        return self.compare_with(self.agent, expected, timeout_s)

    def compare_some(self, expected: Expected) -> None:
        """Only the groups that are expected: the topic holds others that no broker knows of."""
        comparison = self.compare_with(self.agent, expected, only=set(expected))
        assert comparison.total > 0
        assert not comparison.differences, "\n".join(comparison.all_differences())

    def compare_with(
        self,
        agent: WatchedAgent,
        expected: Expected | None = None,
        timeout_s: float = 90,
        only: set[str] | None = None,
    ) -> Comparison:
        def missing(facts: dict[str, Facts]) -> str | None:
            for group, wanted in (expected or {}).items():
                if wanted is None:
                    if group in facts:
                        return f"{group} is still there"
                elif said := wanted.missing(facts.get(group)):
                    return f"{group}: {said}"
            return None

        def read() -> tuple[list[dict[str, object]], dict[str, dict[str, object] | None]]:
            rows = agent.queries.groups()
            return rows, {str(row["group"]): agent.queries.describe(str(row["group"])) for row in rows}

        facts, (rows, forms) = settled_facts(self.yardstick, agent, read, missing, timeout_s)
        if only is not None:
            facts = {group: it for group, it in facts.items() if group in only}
            rows = [row for row in rows if row["group"] in only]
        comparison = compare(facts, rows, forms.get)
        if comparison.differences and (held := self.yardstick.held_back()):
            comparison.excuse(held, PARTITIONS)
            behind = agent.queries.readings().behind_records
            assert all(behind[partition] > 0 for partition in held), "and the agent tells that it is behind there"
        self.tally.add(comparison)
        return comparison


@pytest.fixture(scope="package", params=COORDINATORS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    version: str = request.param
    jars = fetch_jars(version)
    dice = random.Random(f"{SEED} {version}")
    directory: Path = tmp_path_factory.mktemp(f"kafka-{version}")
    newest = fetch_tools(extra=EXTRA)  # the newest Admin client and clients that are published, for each broker
    with EmbeddedBroker(jars, directory=directory / "broker", properties=PROPERTIES) as broker:
        fleet = Fleet(broker.bootstrap_servers, directory / "clients", dice)
        yardstick = Yardstick(newest, broker.bootstrap_servers)
        partition_count({"bootstrap.servers": broker.bootstrap_servers}, create=True)
        agent = WatchedAgent(AgentOptions(conf={"bootstrap.servers": broker.bootstrap_servers}))
        try:
            agent.start()
            stage = Stage(fleet, yardstick, dice, newest)
            tally = TALLIES.setdefault(version, Tally(version))
            yield Cluster(version, broker, jars, yardstick, fleet, stage, agent, tally)
        finally:
            agent.stop()
            fleet.close()
            yardstick.close()


PERFORMANCES: dict[str, Performance] = {}
TRIES = Counter[str]()
"""A play that breaks off is tried twice, not for each test anew."""


@pytest.fixture(scope="package")
def performance(request: pytest.FixtureRequest, cluster: Cluster) -> Performance:
    if cluster.version not in PERFORMANCES:
        # Other folders have scenarios of their own: ours are those with a cluster.
        params = [getattr(getattr(item, "callspec", None), "params", {}) for item in request.session.items]
        ours = [it for it in params if it.get("cluster") == cluster.version]
        chosen = [it["scenario"] for it in ours if "scenario" in it]
        print(f"\n{cluster.version}: seed {SEED}")
        TRIES[cluster.version] += 1
        if TRIES[cluster.version] > 1:
            PERFORMANCES[cluster.version] = Performance({}, ["the play did not come to its end"])
        # The other tests want some groups to be there.
        few = ["classic-scale_up_and_down", "classic-single_then_empty_then_deleted", "classic-offsets_only"]
        PERFORMANCES[cluster.version] = play(cluster, chosen or few)
    return PERFORMANCES[cluster.version]


ORDER = ("test_scenarios.py", "test_again.py", "test_run.py", "test_broker_log.py", "test_zz_poison.py")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One version after the other, and in it the scenarios first, what leaves nothing whole last."""
    here = Path(__file__).parent

    def rank(item: pytest.Item) -> tuple[int, int]:
        if item.path.parent != here:
            return (-1, 0)
        params = getattr(item, "callspec", None)
        version = params.params.get("cluster") if params else None
        return (COORDINATORS.index(version) if version else 0, ORDER.index(item.path.name))

    items.sort(key=rank)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if TALLIES:
        terminalreporter.section("mirror against broker")
        terminalreporter.write_line(f"seed {SEED} (KSHADOW_SEED)")
        for tally in TALLIES.values():
            terminalreporter.write_line(str(tally))
