"""The scene: a broker, clients with real faults and a clean rolling deploy, two agents, Prometheus and Alertmanager.

Played once for all that look at it. The groups are those of `kshadow demo`; the analyzers count over shorter times,
so that what they find is over soon after the faults are.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Producer
from msgspec.structs import replace

from agent.common.clock import now_ms
from agent.core.protocol.hashing import partition_for_group
from agent.kafka.writer.topic import partition_count
from agent.tools.demo import SCENARIOS, Act, Scenario, Scenarios, Step
from agent.tools.demo.monitoring import Alert, Monitoring, Programs
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.answering import Handler, web_server
from tests.harness.faults.agents import AgentProcess
from tests.harness.faults.poison import POISON

PARTITIONS = 16
BROKER = {"offsets.topic.num.partitions": str(PARTITIONS), "group.initial.rebalance.delay.ms": "1000"}

TUNED = (
    "rebalance_storm.window_s=25",
    "rebalance_storm.loop_window_s=90",
    "rebalance_storm.close_after_s=2",
    "session_timeout.window_s=35",
    "poll_timeout.window_s=35",
    "unbalanced_assignment.open_after_s=10",
    "unbalanced_assignment.close_after_s=2",
    "idle_members.open_after_s=10",
    "idle_members.close_after_s=2",
)
"""A member of a KIP-848 group may wait for its partitions for as long as between two heartbeats, five seconds: it is
not idle before ten."""

WAITS_S = 2
"""How long an alert waits at most until it fires, instead of minutes."""

DEPLOY = "shipping-rolling-deploy"
QUIET = (DEPLOY, "telemetry-kip848")
"""Groups of which nothing must be said: one is deployed, the other scaled."""

EXPECTED = {
    ("KshadowRebalanceStorm", "checkout-crash-loop"),
    ("KshadowSessionTimeouts", "checkout-crash-loop"),
    ("KshadowPollStalls", "invoices-slow-batch"),
    ("KshadowImbalance", "search-lopsided"),
    ("KshadowIdleMembers", "search-lopsided"),
}
"""Alerts, and the groups they are about."""

LOAD = 'kshadow_group_load_imbalance_ratio{{group=~"{}"}} >= 0'.format("|".join(sorted({it for _, it in EXPECTED})))
"""How the groups' records are shared out, of those that the dashboards are asked for."""

PLAY_S, REACH_S, RESOLVE_S, LOAD_S = 150.0, 30.0, 90.0, 130.0

TOLD_S = 3.0
"""Within how long a firing alert is told by Alertmanager, which looks every second."""

Which = tuple[str, str, str]
"""An alert's name, its group and its severity."""


def scenarios() -> list[Scenario]:
    """The demo's, without those that nothing is to be seen in; the lopsided group puts itself right at the end."""
    found = {it.name: it for it in SCENARIOS}
    lopsided = found["lopsided"]
    mended = (
        *lopsided.steps,
        Step(Act.RUN, seconds=8),
        Step(Act.LEAVE, ("search-2",)),
        Step(Act.LEAVE, ("search-3",)),
        Step(Act.SETTLE, count=1),
    )
    names = ("crash-loop", "stall", "rolling-deploy", "kip-848")
    return [*(found[name] for name in names), replace(lopsided, steps=mended)]


class Webhook:
    """What Alertmanager sends its notifications to: alerts by when they came, seconds since the epoch."""

    def __init__(self, stack: ExitStack) -> None:
        self.received: list[tuple[float, dict[str, Any]]] = []
        webhook = self

        class Told(Handler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                webhook.received += [(time.time(), alert) for alert in body["alerts"]]
                self.say(200)

        self.url = stack.enter_context(web_server(Told))

    def first(self, which: Which, status: str) -> float | None:
        """When it was first told that an alert is firing or resolved."""
        return min((at for at, it in self.received if which_of(it) == which and it["status"] == status), default=None)


def which_of(alert: Any) -> Which:
    """Of an alert as the APIs tell it."""
    labels = alert["labels"]
    return labels["alertname"], labels.get("group", ""), labels["severity"]


@dataclass
class Seen:
    """When an alert was first seen where: seconds since the epoch."""

    pending: float | None = None
    firing: float | None = None
    reached: float | None = None
    told: float | None = None
    gone: float | None = None
    resolved: float | None = None

    @property
    def stood(self) -> bool:
        """Whether it fired for long enough to be told: Alertmanager says nothing of what is gone when it looks."""
        return self.firing is not None and (self.gone is None or self.gone - self.firing > TOLD_S)


@dataclass
class Stack:
    """What is up once the scene was played."""

    monitoring: Monitoring
    webhook: Webhook
    agent: str
    """The agent that exports everything."""
    began: float
    over: float = 0.0
    seen: dict[Which, Seen] = field(default_factory=dict)

    @property
    def prometheus(self) -> str:
        return self.monitoring.prometheus

    @property
    def alertmanager(self) -> str:
        assert self.monitoring.alertmanager is not None
        return self.monitoring.alertmanager

    def look(self) -> None:
        """Note what is new."""
        now = time.time()
        held: dict[Which, Alert] = {(it.name, it.group, it.severity): it for it in self.monitoring.alerts()}
        for which, alert in held.items():
            it = self.seen.setdefault(which, Seen())
            it.pending = it.pending or now
            if alert.state == "firing":
                it.firing = it.firing or now
        for listed in self.monitoring.ask(f"{self.alertmanager}/api/v2/alerts"):
            it = self.seen.setdefault(which_of(listed), Seen())
            it.reached = it.reached or now
        for which, it in self.seen.items():
            it.told = it.told or self.webhook.first(which, "firing")
            it.gone = None if which in held else it.gone or now
            it.resolved = self.webhook.first(which, "resolved")

    def of(self, name: str, group: str) -> list[Seen]:
        """What was seen of an alert, in each severity that it had."""
        return [it for which, it in self.seen.items() if which[:2] == (name, group)]

    def table(self) -> str:
        """When each alert went where, in seconds since the faults began."""
        rows = [
            f"{'ALERT':26}{'GROUP':24}{'SEVERITY':10}{'PENDING':>8}{'FIRING':>8}{'REACHED':>8}{'TOLD':>8}{'GONE':>8}"
            f"{'RESOLVED':>9}"
        ]
        for (name, group, severity), it in sorted(self.seen.items(), key=lambda item: item[1].pending or 0.0):
            times = (it.pending, it.firing, it.reached, it.told, it.gone)
            cells = "".join(f"{self._since(at):>8}" for at in times)
            rows.append(f"{name:26}{group or '-':24}{severity:10}{cells}{self._since(it.resolved):>9}")
        return "\n".join([*rows, f"the faults were over at {self._since(self.over)} s"])

    def _since(self, at: float | None) -> str:
        return "-" if at is None else f"{at - self.began:.1f}"


@contextmanager
def play(directory: Path, programs: Programs) -> Iterator[Stack]:
    """Play it, to the end of the last alert; what is up then stays so within the block."""
    groups = scenarios()
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(fetch_jars(), directory=directory / "broker", properties=BROKER))
        servers = broker.bootstrap_servers
        partition_count({"bootstrap.servers": servers}, create=True)
        _poison(servers, [it.group for it in groups])
        agents = [
            _agent(directory, "agent", servers, _whole(directory)),
            _agent(directory, "sharing", servers, SHARING),
        ]
        for agent in agents:
            stack.callback(_end, agent)
            agent.start(KSHADOW_CONFIG=str(agent.log.with_suffix(".yaml")))
        for agent in agents:
            agent.wait_ready()
        webhook = Webhook(stack)
        targets = [f"127.0.0.1:{agent.port}" for agent in agents]
        monitoring = stack.enter_context(
            Monitoring(programs, directory / "monitoring", targets, waits_s=WAITS_S, webhook=webhook.url)
        )
        clients = stack.enter_context(Scenarios(servers, directory / "clients", scenarios=groups))
        it = Stack(monitoring, webhook, agent=f"http://{targets[0]}", began=time.time())
        clients.start()
        _until(it, lambda: clients.done, PLAY_S, "the faults to be over")
        it.over = time.time()
        assert clients.failures == {}
        _until(it, lambda: _have(it, "told"), REACH_S, "all alerts to reach the webhook")
        _until(it, lambda: _have(it, "resolved"), RESOLVE_S, "all alerts to be resolved")
        # Loads are compared from the second sample on, and samples are taken by the minute.
        _until(it, lambda: bool(monitoring.query(LOAD)), LOAD_S, "records consumed to be compared")
        print(f"\n{it.table()}")
        yield it


def _have(it: Stack, what: str) -> bool:
    """Whether all that are expected have a time for it, in each severity that stood."""
    found = [[seen for seen in it.of(*which) if seen.stood] for which in EXPECTED]
    return all(found) and all(getattr(seen, what) for seens in found for seen in seens)


def _until(it: Stack, done: Callable[[], bool], most_s: float, what: str) -> None:
    deadline = time.monotonic() + most_s
    while not done():
        assert time.monotonic() < deadline, f"waited {most_s:g} s for {what}:\n{it.table()}"
        it.look()
        time.sleep(0.5)


def _poison(servers: str, groups: list[str]) -> None:
    """Records that cannot be decoded, one of them dated ahead, into a partition whose coordinator has none of these
    groups: it would not survive them."""
    free = set(range(PARTITIONS)) - {
        partition_for_group(group, PARTITIONS) for group in [*groups, SHARING["share-group"]]
    }
    # The one client that brokers let write there.
    producer = Producer({"bootstrap.servers": servers, "client.id": "__admin_client", "log_level": 2})
    key, value = POISON[2]
    ahead_ms = 50 * 60_000
    for timestamp_ms in (now_ms(), now_ms() + ahead_ms):
        place = {"partition": min(free), "timestamp": timestamp_ms}
        producer.produce("__consumer_offsets", key=key, value=value, **place)
    assert producer.flush(30) == 0


def _whole(directory: Path) -> dict[str, Any]:
    """An agent with all that has metrics, and a snapshot that it has to refuse."""
    state = directory / "state"
    kept = state / "snapshots" / "default"
    kept.mkdir(parents=True, mode=0o700)
    (kept / "partition-0.snapshot").write_bytes(b"no snapshot")
    return {
        "state-dir": str(state),
        "snapshot-interval": "2s",
        "history-parquet": str(directory / "history"),
        "lag-interval": "1s",
        "granularity": "partition",
    }


SHARING: dict[str, Any] = {"share-group": "kshadow-scene", "admin": False, "lag": False}
"""A second agent beside it, which owns its partitions: what two agents export of a group is one alert."""


def _agent(directory: Path, name: str, servers: str, settings: dict[str, Any]) -> AgentProcess:
    content = {"bootstrap-server": servers, "tune": list(TUNED), **settings}
    (directory / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return AgentProcess(directory, name=name)


def _end(agent: AgentProcess) -> None:
    if agent.process is not None and agent.process.poll() is None:
        agent.stop()
