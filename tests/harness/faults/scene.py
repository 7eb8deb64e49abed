"""A broker under load, an agent on it, and the verdict at the end."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from agent.tools.embedded import EmbeddedBroker, fetch_jars
from agent.tools.embedded.node import Node
from tests.harness.faults import truth
from tests.harness.faults.agents import AgentProcess
from tests.harness.faults.load import load, make_topic
from tests.harness.faults.recording import Log
from tests.harness.kafka import EmbeddedCluster
from tests.live.scenarios.faults import PROPERTIES
from tests.waiting import until

PARTITIONS = 8
HISTORY = "kshadow-history"


@dataclass(frozen=True)
class Scale:
    """How large a scene is: groups that live and commit for so many seconds, and how often things break."""

    groups: int = 100
    seconds: float = 75
    commit_interval_ms: int = 1000
    times: int = 3
    seed: int = 1


@dataclass
class Scene:
    """What is on stage."""

    name: str
    directory: Path
    kafka: EmbeddedBroker
    agent: AgentProcess
    playing: subprocess.Popen[str]
    notes: list[str] = field(default_factory=list)

    @property
    def servers(self) -> str:
        """The brokers."""
        return self.kafka.bootstrap_servers

    @property
    def state(self) -> Path:
        """The agent's directory."""
        return self.directory / "state"

    def note(self, text: str) -> None:
        """Something for the verdict to say."""
        self.notes.append(text)

    def play_out(self, timeout_s: float = 900.0) -> None:
        """Wait for the end of the load, and for the agent to have read all."""
        assert self.playing.wait(timeout_s) == 0
        assert self.playing.stdout is not None
        self.note(f"load {self.playing.stdout.read().strip()}")
        self.agent.wait_level(120)

    def verdict(self, log: Callable[[], Log] | None = None) -> truth.Verdict:
        """Stop the agent, and compare to what the topic holds then, or to a recording of it (which is to go on until
        then: the broker may write what nobody asked it for).
        """
        code = self.agent.stop()
        blobs, told = truth.snapshots(self.state), truth.history(self.servers, HISTORY)
        verdict = truth.judge(self.name, self.servers, blobs, told, log=None if log is None else log())
        if code:
            self.note(f"exit code {code}")
        verdict.said = "; ".join(self.notes)
        return verdict

    def finish(self) -> truth.Verdict:
        """Both."""
        self.play_out()
        return self.verdict()

    def history_apart(self) -> Node:
        """Make the history topic on the last of several brokers alone: that one, so that it can go away. Lowering
        `min.insync.replicas` would not do, since Kafka 4 holds it to no more than there are replicas.
        """
        assert isinstance(self.kafka, EmbeddedCluster)
        last = max(self.kafka.brokers)
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        topic = NewTopic(HISTORY, 6, replica_assignment=[[last]] * 6)
        admin.create_topics([topic])[HISTORY].result(30)
        return self.kafka.brokers[last]

    def wait_events(self, least: int, timeout_s: float = 60.0) -> None:
        """Until the history topic has so many events."""
        until(lambda: self.exported() >= least, timeout_s, self.agent.tail)

    def exported(self) -> float:
        """How many events the agent says it has written."""
        return self.total("kshadow_history_events_total")

    def total(self, metric: str, *labels: str) -> float:
        """The sum of a metric's samples, of those that have all of these labels."""
        samples = self.agent.metrics().items()
        return sum(
            value for (name, its), value in samples if name == metric and all(label in its for label in labels)
        )


@contextmanager
def scene(
    name: str,
    directory: Path,
    scale: Scale,
    *,
    nodes: int = 1,
    options: tuple[str, ...] = (),
    properties: Mapping[str, str] | None = None,
    state: bool = True,
    spared: int = -1,
) -> Iterator[Scene]:
    """Everything set up but the agent, which is not started."""
    directory.mkdir(parents=True, exist_ok=True)
    settings = {"offsets.topic.num.partitions": str(PARTITIONS), **PROPERTIES, **(properties or {})}
    kafka: EmbeddedBroker
    if nodes == 1:
        kafka = EmbeddedBroker(fetch_jars(), properties=settings)
    else:
        kafka = EmbeddedCluster(fetch_jars(), nodes=nodes, properties=settings)
    with ExitStack() as stack:
        stack.enter_context(kafka)
        make_topic(kafka.bootstrap_servers)
        where = ("--state-dir", str(directory / "state")) if state else ()
        agent = AgentProcess(
            directory,
            *("--bootstrap-server", kafka.bootstrap_servers, "--no-admin", "--no-lag"),
            *("--history-topic", HISTORY, "--snapshot-interval", "2s"),
            *where,
            *options,
        )
        playing = stack.enter_context(
            load(
                kafka.bootstrap_servers,
                seed=scale.seed,
                groups=scale.groups,
                seconds=scale.seconds,
                commit_interval_ms=scale.commit_interval_ms,
                spared=spared,
            )
        )
        try:
            yield Scene(name, directory, kafka, agent, playing)
        finally:
            if agent.is_running:
                agent.kill()


def pause(seconds: float) -> None:
    """Let it play."""
    time.sleep(seconds)
