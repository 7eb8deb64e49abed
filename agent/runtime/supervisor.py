"""Clusters that are tried again and again: each with an agent of its own, which answers as if it were alone.

A cluster that cannot be reached, or whose agent breaks, gets a new agent after a while. Of several in one process the
others do not notice; what they say together names the cluster, and `of_cluster` gives one of them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from agent.common.collector import collect_all
from agent.common.logs import CLUSTER
from agent.common.memory import return_freed_memory
from agent.common.pacing import Interval, growing_pauses
from agent.common.threads import BackgroundThread
from agent.core.events.samples import LagNote
from agent.core.queries import CAUGHT_UP, AmbiguousGroup, Capabilities, Health, JsonObject, Timeline
from agent.kafka.source.errors import SourceError, TopicMissing
from agent.persistence.snapshot.store import StoreError
from agent.serving.metrics.readings import Readings, unread
from agent.serving.queries import ServedQueries
from agent.simulation.whatif.recorder import GroupRecording

log = logging.getLogger("kshadow")

T = TypeVar("T")

LOOK_S = 1.0
"""How often an agent is looked after."""
WAIT_S = (1.0, 60.0)
"""How long a cluster is left alone after a failure: at first, and at most; twice as long each time."""
TOPIC_WAIT_S = 5.0
"""The longest between two looks for a topic that is yet to come."""
LET_GO_S = 60.0
"""How often at most what is left of agents that could not be started is freed: all threads stand still."""
LEFT_S = 1.0
"""How long a stop waits for who connects: brokers that are away take as long as all of it may, and nothing is known
yet that could be saved."""
JOINED_S = 5.0
"""The same of a replica: it has joined by then, and partitions of one that does not leave are read by nobody for as
long as its session lasts."""
JOIN_S = 0.05
STEADY_S = 300.0
"""Who ran for so long is tried again as if for the first time."""


class SupervisedAgent(Protocol):
    """An agent that is started once, and stopped once even if the start failed."""

    @property
    def queries(self) -> ServedQueries:
        """What answers for it."""

    def start(self) -> None:
        """Raises `SourceError` where the cluster cannot be read."""

    def stop(self) -> None:
        """Lets go of everything."""


class ClusterSupervisor(BackgroundThread, ServedQueries):
    """A cluster: its agent while there is one, what is wrong while there is none."""

    def __init__(
        self,
        name: str | None,
        make: Callable[[], SupervisedAgent],
        *,
        joins_group: bool = False,
        look_s: float = LOOK_S,
        wait_s: tuple[float, float] = WAIT_S,
        steady_s: float = STEADY_S,
    ) -> None:
        """`make` gives a new agent; it may raise `SourceError`. The name is None where there is but one cluster.
        `joins_group`: its agents share partitions with others."""
        super().__init__(f"cluster {name or ''}")
        self.name = name
        self._joins_group = joins_group
        self._make, self._look_s, self._wait_s, self._steady_s = make, look_s, wait_s, steady_s
        self._agent: ServedQueries | None = None
        self._reason = "connecting"
        self._connects = False
        self._left_at_s = 0.0
        self._awaits_topic = False
        """Whether what is missing is the topic alone."""
        self._lets_go = Interval(LET_GO_S)

    def _run(self) -> None:
        """Have an agent run until a stop is asked for."""
        # Also of the threads that the agent makes.
        CLUSTER.set(self.name)
        pauses = growing_pauses(*self._wait_s)
        was_waiting = False
        while not self._stop.is_set():
            looks = self._run_agent()
            if self._stop.is_set():
                return
            if not self._awaits_topic and self._lets_go.due(time.monotonic()):
                _let_go()
            if looks * self._look_s >= self._steady_s:
                pauses = growing_pauses(*self._wait_s)
            wait_s = next(pauses)
            if self._awaits_topic:
                # No trouble, and it may go on for days: told once, and looked for often.
                wait_s = min(wait_s, TOPIC_WAIT_S)
                if not was_waiting:
                    log.warning("%s; waiting for it", self._reason)
            else:
                log.warning("%s; trying again in %.0f s", self._reason, wait_s)
            was_waiting = self._awaits_topic
            self._stop.wait(wait_s)

    def _run_agent(self) -> int:
        """One agent's life; how often it was found alive."""
        made: SupervisedAgent | None = None
        looks = 0
        self._awaits_topic = False
        self._connects = True
        try:
            made = self._make()
            made.start()
            self._connects = False
            # What the one before it knew was answered until now.
            has_replaced = self._agent is not None
            self._agent = queries = made.queries
            if has_replaced:
                _let_go()
            while not self._stop.wait(self._look_s):
                alive = queries.alive()
                if not alive.ready:
                    self._reason = alive.reason
                    break
                looks += 1
        except (SourceError, StoreError) as error:
            self._reason = str(error)
            self._awaits_topic = isinstance(error, TopicMissing)
        except Exception as error:
            # One cluster's trouble, whatever it is, must not end the others.
            self._reason = repr(error)
            log.exception("the agent")
        finally:
            self._connects = False
            self._end(made)
        return looks

    def request_stop(self) -> None:
        """End soon; `stop` waits for it."""
        if not self._stop.is_set():
            self._left_at_s = time.monotonic() + (JOINED_S if self._joins_group else LEFT_S)
        super().request_stop()

    def stop(self) -> None:
        """End, and wait for it, unless it still connects."""
        self.request_stop()
        while self._thread.is_alive() and not (self._connects and time.monotonic() >= self._left_at_s):
            self.join(JOIN_S)

    def _end(self, agent: SupervisedAgent | None) -> None:
        if agent is None:
            return
        try:
            agent.stop()
        except Exception:
            log.exception("stopping")

    # What others ask: as an agent answers, with the cluster's name in it.

    def of_cluster(self, cluster: str) -> ClusterSupervisor | None:
        """Itself, by its agent's name; by any until there is one, to say that there is none."""
        agent = self._agent
        return self if agent is None or agent.of_cluster(cluster) is not None else None

    @property
    def has_caught_up(self) -> bool:
        """Whether its topic was read to its end once."""
        agent = self._agent
        return agent is not None and agent.has_caught_up

    def alive(self) -> Health:
        """Whether it is looked after: a broken agent is replaced without a restart."""
        if self._thread.is_alive():
            return Health(True, "reading" if self._agent is not None else self._reason)
        return Health(False, f"{'' if self.name is None else f'cluster {self.name}: '}nobody looks after it")

    def ready(self) -> Health:
        """Whether its answers are whole and fresh."""
        agent = self._agent
        return Health(False, self._reason) if agent is None else agent.ready()

    def status(self) -> JsonObject:
        """What its agent tells of itself."""
        agent = self._agent
        return {} if agent is None else agent.status()

    def groups(self) -> list[JsonObject]:
        """Every group's row, by name."""
        agent = self._agent
        return [] if agent is None else [self._named(row) for row in agent.groups()]

    def describe(self, group: str) -> JsonObject | None:
        """One group in full, or None."""
        agent = self._agent
        form = None if agent is None else agent.describe(group)
        return None if form is None else self._named(form)

    def timeline(self, group: str, since_ms: int | None = None, until_ms: int | None = None) -> Timeline | None:
        """As an agent's."""
        agent = self._agent
        past = None if agent is None else agent.timeline(group, since_ms, until_ms)
        return None if past is None else past._replace(events=[self._named(event) for event in past.events])

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[JsonObject]:
        """As an agent's."""
        agent = self._agent
        return [] if agent is None else [self._named(it) for it in agent.findings(since_ms, until_ms, group)]

    def findings_complete_since_ms(self, group: str | None = None) -> int | None:
        """As an agent's."""
        agent = self._agent
        return None if agent is None else agent.findings_complete_since_ms(group)

    def unseen_reason(self, group: str) -> str | None:
        """As an agent's."""
        agent = self._agent
        return None if agent is None else agent.unseen_reason(group)

    def recording(self, group: str) -> GroupRecording | None:
        """As an agent's."""
        agent = self._agent
        return None if agent is None else agent.recording(group)

    def lag_notes(self, group: str) -> Sequence[LagNote]:
        """As an agent's."""
        agent = self._agent
        return () if agent is None else agent.lag_notes(group)

    def readings(self) -> Readings:
        """What a scrape needs; of a cluster that was never reached, that it is not read."""
        agent = self._agent
        return unread() if agent is None else agent.readings()

    def _named(self, form: Mapping[str, object]) -> JsonObject:
        return dict(form) if self.name is None else {**form, "cluster": self.name}


def _let_go() -> None:
    """Free what an agent that has ended knew, and its clients, which go on looking for brokers: its parts hold each
    other, and the collector of cycles, which leaves out what lives long, would never come to them."""
    collect_all()
    return_freed_memory()


class SupervisedClusters(ServedQueries):
    """All of them together. Of a cluster that has not caught up nothing is told but that it has not."""

    def __init__(self, clusters: Iterable[ClusterSupervisor]) -> None:
        """Each has a name, and none that of another."""
        self._clusters = {str(cluster.name): cluster for cluster in clusters}

    def start(self) -> None:
        """Start them all; returns at once, whoever can be reached."""
        for cluster in self._clusters.values():
            cluster.start()

    def stop(self) -> None:
        """Stop them all, at the same time."""
        for cluster in self._clusters.values():
            cluster.request_stop()
        for cluster in self._clusters.values():
            cluster.stop()

    @property
    def capabilities(self) -> Capabilities:
        """The clusters' names, in the order in which they were given."""
        return Capabilities(clusters=tuple(self._clusters))

    def of_cluster(self, cluster: str) -> ClusterSupervisor | None:
        """The one of this name."""
        return self._clusters.get(cluster)

    @property
    def has_caught_up(self) -> bool:
        """Whether anything can be told: at least one has."""
        return any(cluster.has_caught_up for cluster in self._clusters.values())

    def alive(self) -> Health:
        """Whether all are looked after."""
        return next((it for it in (one.alive() for one in self._clusters.values()) if not it.ready), _READING)

    def ready(self) -> Health:
        """Whether all are ready; the reason names those that are not, or else those that warn of something."""
        states = {name: cluster.ready() for name, cluster in self._clusters.items()}
        reasons = [f"cluster {name}: {state.reason}" for name, state in states.items() if not state.ready]
        if reasons:
            return Health(False, "; ".join(reasons))
        told = ((name, it) for name, state in states.items() for it in state.reason.split("; ") if it != CAUGHT_UP)
        return Health(True, "; ".join([CAUGHT_UP, *(f"cluster {name}: {it}" for name, it in told)]))

    def status(self) -> JsonObject:
        """Of each cluster whether it is ready, and why not; and what its agent tells of itself."""
        states = {name: cluster.ready() for name, cluster in self._clusters.items()}
        return {
            "clusters": {
                name: {"ready": it.ready, "reason": it.reason, **self._clusters[name].status()}
                for name, it in states.items()
            }
        }

    def groups(self) -> list[JsonObject]:
        """Every group's row, by name, then in the order of the clusters."""
        rows = [row for cluster in self._caught_up().values() for row in cluster.groups()]
        return sorted(rows, key=lambda row: str(row["group"]))

    def describe(self, group: str) -> JsonObject | None:
        """One group in full, or None. Raises `AmbiguousGroup` where several clusters have one of that name."""
        told = {name: one.describe(group) for name, one in self._caught_up().items()}
        return self._only({name: found for name, found in told.items() if found is not None})

    def timeline(self, group: str, since_ms: int | None = None, until_ms: int | None = None) -> Timeline | None:
        """As an agent's. Raises `AmbiguousGroup` where several clusters have one of that name."""
        told = {name: one.timeline(group, since_ms, until_ms) for name, one in self._caught_up().items()}
        return self._only({name: found for name, found in told.items() if found is not None})

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[JsonObject]:
        """As an agent's, of all clusters, in the order in which they opened."""
        found = [it for one in self._caught_up().values() for it in one.findings(since_ms, until_ms, group)]
        return sorted(found, key=lambda it: (it["since_ms"], it["analyzer"], it["group"] or ""))

    def findings_complete_since_ms(self, group: str | None = None) -> int | None:
        """As an agent's, of all clusters."""
        told = [one.findings_complete_since_ms(group) for one in self._caught_up().values()]
        return max((it for it in told if it is not None), default=None)

    def unseen_reason(self, group: str) -> str | None:
        """As an agent's, of the first cluster that has one."""
        told = ((name, one.unseen_reason(group)) for name, one in self._caught_up().items())
        return next((f"cluster {name}: {it}" for name, it in told if it is not None), None)

    def recording(self, group: str) -> GroupRecording | None:
        """As an agent's. Raises `AmbiguousGroup` where several clusters have one of that name."""
        told = {name: one.recording(group) for name, one in self._caught_up().items()}
        return self._only({name: found for name, found in told.items() if found is not None})

    def lag_notes(self, group: str) -> Sequence[LagNote]:
        """As an agent's. Raises `AmbiguousGroup` where several clusters have one of that name."""
        told = {name: one.lag_notes(group) for name, one in self._caught_up().items()}
        return self._only({name: found for name, found in told.items() if found}) or ()

    def readings(self) -> Readings:
        """There is no one: each cluster has its own, by `of_cluster`."""
        raise TypeError("several clusters have a reading each")

    def _caught_up(self) -> dict[str, ClusterSupervisor]:
        return {name: cluster for name, cluster in self._clusters.items() if cluster.has_caught_up}

    @staticmethod
    def _only(found: dict[str, T]) -> T | None:
        if len(found) > 1:
            raise AmbiguousGroup(f"several clusters have this group: {', '.join(found)}; ?cluster=NAME chooses one")
        return next(iter(found.values()), None)


_READING = Health(True, "reading")
