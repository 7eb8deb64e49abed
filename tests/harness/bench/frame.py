"""What all scenarios share: sizes, who takes part, a real broker with a load."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path

from agent.core.wire.primitives import Uuid
from agent.tools.embedded import EmbeddedBroker, Jars
from tests.harness.bench import load
from tests.harness.bench.load import Shape
from tests.harness.bench.measure import NotReadyError, Ready, Usage
from tests.harness.bench.report import Row, Table, median
from tests.harness.bench.tools import KShadow, Tool

READY_S = 300.0
"""How long a tool may take to be ready."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    rounds: int = 3
    commits: int = 3_000_000
    groups: int = 2_000
    rate: int = 50_000
    seconds: float = 30.0
    scrape_groups: int = 10_000
    scrapes: int = 5
    memory_groups: int = 10_000
    """By that many groups the topic grows, `memory_steps` times."""
    memory_topics: int = 2
    """Of each of these, of five partitions each."""
    memory_steps: int = 2
    memory_rounds: int = 5
    """How often each position is committed: a broker of 1 GB loads 2 million commits again, 5 million it does not."""
    generate_groups: int = 2_000
    generate_records: int = 1_000_000
    settle_s: float = 5.0
    """From ready to what is measured at rest."""
    topics: int = 100
    topic_partitions: int = Shape().topic_partitions
    topics_of_a_group: int = Shape().topics_of_a_group
    shards: tuple[int, ...] = ()
    """In how many agents at once the steady state is measured, besides in one."""
    scrape_s: float = 10.0
    """How often every tool is scraped meanwhile: it is what it is there for."""

    @property
    def shape(self) -> Shape:
        """Of the load of commits."""
        positions = self.topic_partitions * self.topics_of_a_group
        rounds = max(self.commits // (self.groups * positions), 1)
        return Shape(self.topics, self.topic_partitions, self.topics_of_a_group, rounds)

    @property
    def scrape_shape(self) -> Shape:
        """Ten positions a group; so many rounds that a tool which keeps a history of commits has one."""
        return Shape(topics=self.topics, topic_partitions=5, topics_of_a_group=2, rounds=5)

    @property
    def memory_shape(self) -> Shape:
        """The same with other groups."""
        return replace(self.scrape_shape, topics_of_a_group=self.memory_topics, rounds=self.memory_rounds)


FULL = Sizes()
QUICK = Sizes(
    rounds=1,
    commits=400_000,
    groups=500,
    rate=20_000,
    seconds=6.0,
    scrape_groups=1_000,
    scrapes=3,
    memory_groups=1_000,
    generate_groups=200,
    generate_records=100_000,
    settle_s=1.0,
)
TINY = Sizes(
    rounds=1,
    commits=8_000,
    groups=20,
    rate=1_000,
    seconds=5.0,
    scrape_groups=20,
    scrapes=2,
    memory_groups=20,
    generate_groups=5,
    generate_records=2_000,
    settle_s=0.2,
    topics=10,
    shards=(2,),
)
MILLION = Sizes(
    rounds=1,
    commits=2_000_000,
    groups=20_000,
    rate=100_000,
    seconds=600.0,
    memory_groups=20_000,
    memory_topics=10,
    memory_steps=1,
    memory_rounds=2,
    settle_s=30.0,
    topics=1_000,
    topic_partitions=5,
    topics_of_a_group=10,
    shards=(2, 4),
    scrape_s=30.0,
)
"""A million group-partitions, each committed every ten seconds; scraped as often as the Prometheus operator does."""


@dataclass
class Frame:
    """One run of the bench."""

    sizes: Sizes
    jars: Jars
    directory: Path
    tools: list[Tool]
    """The others that take part."""
    missing: dict[str, str]
    """Who does not, and why."""
    _kept: ExitStack = field(default_factory=ExitStack)
    _loaded: EmbeddedBroker | None = None

    @property
    def everybody(self) -> list[Tool]:
        """kshadow first."""
        return [KShadow(), *self.tools]

    @property
    def readers(self) -> list[Tool]:
        """Those that read the topic."""
        return [tool for tool in self.everybody if tool.reads_topic]

    @contextmanager
    def broker(self) -> Iterator[EmbeddedBroker]:
        """A broker of its own, empty, and no other beside it."""
        self.close()
        with EmbeddedBroker(self.jars, heap="1g", directory=_fresh(self.directory)) as broker:
            yield broker

    def loaded(self) -> EmbeddedBroker:
        """A broker with the load of commits: the same for each scenario, until one wants a broker of its own."""
        if self._loaded is None:
            broker = EmbeddedBroker(self.jars, heap="1g", directory=_fresh(self.directory))
            self._loaded = self._kept.enter_context(broker)
            ids = load.make_topics(broker.bootstrap_servers, self.sizes.shape)
            self.fill(broker, ids, self.sizes.shape, range(self.sizes.groups))
        return self._loaded

    def close(self) -> None:
        """End the broker that is kept."""
        self._loaded = None
        self._kept.close()

    def fill(self, broker: EmbeddedBroker, ids: dict[str, Uuid], shape: Shape, groups: range) -> None:
        """Write groups and their commits, and say so."""
        began = time.monotonic()
        # In a process of its own: to Linux the peak memory of what is started here begins at this process' own peak.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            it = pool.submit(load.write, broker.bootstrap_servers, ids, shape, groups).result()
        tell(
            f"loaded {it.commits:,} commits of {it.groups:,} groups, {it.group_partitions:,} group-partitions, "
            f"in {time.monotonic() - began:.0f} s"
        )
        # A coordinator reads what others wrote into its topic only when it starts. Without that whoever asks the
        # brokers finds no such groups there.
        broker.restart()
        load.await_groups(broker.bootstrap_servers, groups.stop)

    def take_turns(self, table: Table, rivals: dict[str, Callable[[], Row]]) -> None:
        """Each once a round, so that a noisy machine treats them alike; the medians are the rows."""
        taken: dict[str, list[Row]] = {name: [] for name in rivals}
        for number in range(self.sizes.rounds):
            for name, measure in rivals.items():
                row = self.attempt(table, name, measure)
                if row is not None:
                    taken[name].append(row)
                    tell(f"{table.name}, round {number + 1}: {name}: {_shown(row)}")
        table.rows.update((name, median(rows)) for name, rows in taken.items() if rows)

    def attempt(self, table: Table, name: str, measure: Callable[[], Row]) -> Row | None:
        """One measurement. Where another tool fails it is noted in the table; where ours does it is an error."""
        try:
            return measure()
        except NotReadyError as error:
            if name.startswith("kshadow"):
                raise
            table.notes.append(f"{name}: {error}")
            return None


def ready_row(ready: Ready) -> dict[str, float | None]:
    """As cells."""
    return {"wall_s": ready.wall_s, "busy_s": ready.busy_s, **usage_row(ready.usage)}


def usage_row(usage: Usage, since: Usage | None = None) -> dict[str, float | None]:
    """As cells: the CPU since then, the memory as it is."""
    cpu_s = usage.cpu_s - (since.cpu_s if since is not None else 0.0)
    return {"cpu_s": cpu_s, "rss_mb": usage.rss_mb, "pss_mb": usage.pss_mb, "peak_mb": usage.peak_mb}


def tell_row(table: Table, name: str) -> None:
    """A row as soon as it is there."""
    tell(f"{table.name}: {name}: {_shown(table.rows[name])}")


def tell(text: str) -> None:
    """Progress, not a result."""
    print(text, file=sys.stderr, flush=True)


def _fresh(directory: Path) -> Path:
    return directory / f"broker-{sum(1 for _ in directory.glob('broker-*'))}"


def _shown(row: Row) -> str:
    return ", ".join(f"{key} {value:.2f}" for key, value in row.items() if value is not None)
