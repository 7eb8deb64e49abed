"""The observer on real brokers: join phases against the broker's own log, and the mirror against the broker."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from agent.core.protocol.hashing import partition_for_group
from agent.core.shadow.transitions import Rebalanced, Transition
from agent.kafka.admin_api.asking import SILENT_S
from agent.kafka.admin_api.child import TIMEOUT_S
from agent.kafka.admin_api.divergence import FIELDS
from agent.kafka.admin_api.join_phase_observations import ARRIVAL_MS
from agent.kafka.admin_api.observer import AdminObserver
from agent.kafka.writer.topic import partition_count
from agent.runtime.agent import Agent
from agent.runtime.parts import AgentOptions
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from agent.tools.embedded.ports import free_ports
from tests.live.scenarios.fleet import Client, Fleet
from tests.live.versions import NEWEST, NEWEST_ELSE_THOROUGH
from tests.unit.core.shadow import build as b
from tests.unit.kafka.admin_api.watching import LOGGED_MS, WatchedSightings
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

PARTITIONS = 8
TOPIC = "t"
AGREED = dict.fromkeys(FIELDS, 0)
JOINS = 6
"""Groups whose join phases are timed."""


ONCE = pytest.mark.parametrize("live", [NEWEST], indirect=True)
"""What is ours alone, and the same with every version."""


@dataclass
class Live:
    """A broker, clients, and an agent with an observer."""

    version: str
    broker: EmbeddedBroker
    fleet: Fleet
    admin: AdminClient
    observer: AdminObserver
    watched: WatchedSightings
    agent: Agent
    rebalances: list[Rebalanced]
    groups: set[str] = field(default_factory=set)
    """Those of its consumers."""

    def consumer(self, group: str, **conf: Any) -> Client:
        self.groups.add(group)
        settings: dict[str, object] = {name.replace("_", "."): value for name, value in conf.items()}
        return self.fleet.python("consume", conf={"group.id": group, **settings}, topics=[TOPIC])

    def observed(self) -> Any:
        observed = self.observer.readings()
        assert observed is not None
        return observed


@pytest.fixture(scope="module", params=NEWEST_ELSE_THOROUGH)
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    directory: Path = tmp_path_factory.mktemp("observed")
    properties = {
        "offsets.topic.num.partitions": str(PARTITIONS),
        # What has no ACL may be done by anybody; a test denies one right.
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:nobody",
    }
    jars = fetch_jars(request.param)
    with EmbeddedBroker(jars, directory=directory / "broker", properties=properties) as broker:
        conf = {"bootstrap.servers": broker.bootstrap_servers}
        admin = AdminClient({**conf, "log_level": 2})
        admin.create_topics([NewTopic(TOPIC, 8, 1)])[TOPIC].result(20)
        partition_count(conf, create=True)
        rebalances: list[Rebalanced] = []

        def keep(transitions: list[Transition]) -> None:
            rebalances.extend(it for it in transitions if isinstance(it, Rebalanced))

        fleet = Fleet(broker.bootstrap_servers, directory / "clients", random.Random(7))
        watched = WatchedSightings()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("agent.kafka.admin_api.observer.JoinPhaseObservations", lambda: watched)
            observer = AdminObserver(conf)
        agent = Agent(AgentOptions(conf=conf, observe=keep, observer=observer))
        try:
            agent.start()
            until(lambda: agent.queries.has_caught_up)
            yield Live(request.param, broker, fleet, admin, observer, watched, agent, rebalances)
        finally:
            agent.stop()
            fleet.close()


_LINE = r"\[(\S+ \S+)\] INFO .*"
_PREPARING = re.compile(_LINE + r"Preparing to rebalance group (\S+) in state .* with old generation (\d+)")
_STABILIZED = re.compile(_LINE + r"Stabilized group (\S+) generation (\d+)")


def joins_in(log: str) -> dict[tuple[str, int], tuple[int, int]]:
    """When each join phase began and ended by the broker's log, epoch milliseconds, by group and generation."""
    began: dict[tuple[str, int], int] = {}
    took: dict[tuple[str, int], tuple[int, int]] = {}
    for line in log.splitlines():
        for pattern, further in ((_PREPARING, 1), (_STABILIZED, 0)):
            if match := pattern.search(line):
                at = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
                at_ms = round(at.timestamp() * 1000)
                key = (match[2], int(match[3]) + further)
                if further:
                    began[key] = at_ms
                elif key in began:
                    took[key] = (began[key], at_ms)
    return took


def test_join_phases(live: Live) -> None:
    """Members hear of a rebalance with their next heartbeat, so those of an eager group keep each other waiting.

    The first sweep finds what had begun before, and cannot tell when.
    """
    until(lambda: (it := live.observer.readings()) is not None and it.rebalancing, said=live.observer.readings)
    slow = {"session_timeout_ms": 9000, "heartbeat_interval_ms": 2500}
    groups = [live.fleet.name("eager") for _ in range(JOINS)]

    def have(members: int) -> None:
        """All groups have completed a rebalance with that many."""
        now = lambda: {it.group: it.members for it in live.rebalances}  # noqa: E731
        until(lambda: [now().get(group) for group in groups] == [members] * JOINS, 60, now)

    for group in groups:
        live.consumer(group, **slow)
        live.consumer(group, **slow)
    have(2)

    def told() -> list[tuple[Rebalanced, tuple[int, int] | None, int | None]]:
        """Each rebalance, its join phase by the broker's log, and how far off, at most, what is told of it may be."""
        truth = joins_in(live.broker.log_file.read_text())
        phases = [(it, truth.get((it.group, it.generation))) for it in live.rebalances if it.group in groups]
        return [
            (it, phase, phase and live.watched.promised_error_ms(it.group, it.generation, *phase))
            for it, phase in phases
        ]

    rounds, promises = 0, 0
    # Of what is swept late, as on a busy machine, nothing is promised.
    while rounds < 2 or (promises < 2 * JOINS and rounds < 8):
        more = [live.consumer(group, **slow) for group in groups]
        have(3)
        for client in more:
            client.leave()
        have(2)
        rounds, promises = rounds + 1, sum(promised_ms is not None for _, _, promised_ms in told())
    assert promises >= 2 * JOINS, live.watched.sweeps

    errors, further = [], []
    for it, phase, promised_ms in told():
        seen = [evidence for evidence in it.inferred.evidence if evidence["kind"] == "admin_api"]
        assert it.observed == bool(seen) == (it.join_ms is not None)
        if phase is None:
            assert not seen, "the broker knows of no such phase"
            continue
        if promised_ms is not None:
            assert seen, f"nobody saw {live.watched.told_of(it.group, it.generation, *phase)}"
            assert seen[0]["error_ms"] <= promised_ms
        if it.join_ms is not None:
            errors.append(it.join_ms - (phase[1] - phase[0]))
            # Clocks are compared by records, and these may all have come later than is allowed for.
            late_ms = max(live.watched.late_ms[it.group, it.generation] - ARRIVAL_MS, 0)
            further.append(abs(errors[-1]) - seen[0]["error_ms"] - late_ms)
    # The broker writes its log after it did what it tells of, on a busy machine once in a while much later.
    assert sum(it > 0 for it in further) <= len(further) // 10, (errors, further)
    assert max(further) < 10 * LOGGED_MS, (errors, further)
    print(f"\n{live.version}: {promises} promised, {len(errors)} seen, wrong by {min(errors)} to {max(errors)} ms")


def test_mirror_and_broker_agree(live: Live) -> None:
    live.consumer("steady")
    if live.version.startswith("4"):
        for _ in range(2):
            live.consumer("modern", group_protocol="consumer")
        live.fleet.python("share", conf={"group.id": "shared"}, topics=[TOPIC])
    live.fleet.python("commit", conf={"group.id": "simple"}, offsets=[[TOPIC, 0, 3, "", -1]]).finish()
    expected = {*live.groups, "simple"}
    rows = lambda: {str(row["group"]): row for row in live.agent.queries.groups()}  # noqa: E731
    until(
        lambda: expected <= {group for group, row in rows().items() if row["state"] in ("Stable", "Empty")}, said=rows
    )
    seen = live.observed().requests["answered"]
    # Long enough for a second answer about each, which is what counts.
    until(lambda: live.observed().compared_groups >= len(expected), said=live.observed)
    for _ in range(70):
        assert live.observed().divergences == AGREED
        time.sleep(0.1)
    observed = live.observed()
    assert observed.compared_groups == len(expected)
    assert observed.requests["answered"] > seen
    assert not any(count for outcome, count in observed.requests.items() if outcome != "answered")


def test_a_group_that_no_coordinator_knows(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    """Written into the topic past the coordinator: the mirror believes it. And its tombstone."""
    caplog.set_level("INFO", "kshadow")
    # A name that brokers let write there, meant for Kafka's own tools.
    conf = {"bootstrap.servers": live.broker.bootstrap_servers, "client.id": "__admin_client", "log_level": 2}
    producer = Producer(conf)

    def write(group: str, pair: b.Pair) -> None:
        key, value = pair
        producer.produce("__consumer_offsets", value, key, partition_for_group(group, PARTITIONS))
        assert producer.flush(20) == 0

    write("ghost", b.classic_group(4, b.member("m-1", {TOPIC: [0]}), group="ghost", state_ms=b.T0))
    wrong = {**AGREED, "presence": 1}
    until(lambda: live.observed().divergences == wrong, said=live.observed)
    time.sleep(6)
    assert live.observed().divergences == wrong
    write("ghost", b.no_classic_group("ghost"))
    until(lambda: live.observed().divergences == AGREED, said=live.observed)
    # The count is there a moment before the line.
    until(lambda: "group 'ghost': mirror and broker no longer differ" in caplog.messages)
    assert [text for text in caplog.messages if "'ghost'" in text] == [
        "group 'ghost': mirror and broker differ: presence: the broker has no such group, the mirror has it in state"
        " Stable",
        "group 'ghost': mirror and broker no longer differ",
    ]

    # A group that both have, and a record of it that the coordinator did not write.
    write("simple", b.classic_group(2, b.member("m-1", {TOPIC: [0]}), group="simple", state_ms=b.T0))
    until(lambda: live.observed().divergences["members"] == 1, said=live.observed)
    assert live.observed().divergences == {**AGREED, "members": 1, "protocol": 1, "state": 1}
    write("simple", b.classic_group(3, group="simple", protocol=None, state_ms=b.T0))
    until(lambda: live.observed().divergences == AGREED, said=live.observed)


@ONCE
def test_a_group_that_may_not_be_described(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    live.fleet.python("commit", conf={"group.id": "secret"}, offsets=[[TOPIC, 0, 3, "", -1]]).finish()
    denied = AclBinding(
        ResourceType.GROUP,
        "secret",
        ResourcePatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.DENY,
    )
    before = live.observed().requests
    live.admin.create_acls([denied])[denied].result(20)
    until(lambda: live.observed().requests["denied"] > before["denied"], said=live.observed)
    # It is counted a moment before it is told.
    until(lambda: any("no right" in text for text in caplog.messages), said=live.observed)
    (said,) = [text for text in caplog.messages if "no right" in text]
    assert "a description of group 'secret', ACL operation Describe on the group" in said
    count = live.observed().requests
    time.sleep(11)
    now = live.observed().requests
    assert now["denied"] == count["denied"], "it is left alone"
    assert now["answered"] > count["answered"] + 2, "the others are not"
    assert live.observed().divergences == AGREED


def sent_by(
    live: Live, option: str, log: Path, is_enough: Callable[[set[str], float], bool]
) -> tuple[set[str], float]:
    """What `kshadow run` asks, by librdkafka's own log, until that is enough; and seconds since it had caught up."""

    def requests() -> set[str]:
        return set(re.findall(r"Sent (\w+)Request", log.read_text(errors="replace")))

    command = [sys.executable, "-m", "agent.cli.main", "run", "--listen", f"127.0.0.1:{free_ports(1)[0]}", option]
    command += ["--bootstrap-server", live.broker.bootstrap_servers, "-X", "debug=protocol", "-X", "log_level=7"]
    command += ["--log-level", "debug"]
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            until(lambda: "caught up: " in log.read_text(errors="replace"), 60)
            began = time.monotonic()
            until(lambda: is_enough(requests(), time.monotonic() - began), 60, requests)
            took_s = time.monotonic() - began
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
    return requests(), took_s


@ONCE
def test_no_admin_asks_nothing(live: Live, tmp_path: Path) -> None:
    asked = {"ListGroups", "DescribeGroups", "ConsumerGroupDescribe"}
    sent, took_s = sent_by(live, "--admin", tmp_path / "admin.log", lambda sent, _: asked <= sent)
    without, _ = sent_by(live, "--no-admin", tmp_path / "without.log", lambda _, s: s > 2 * took_s + 1)
    assert sent - without == asked
    assert "Fetch" in without


@ONCE
def test_a_broker_that_goes_and_comes_back(live: Live) -> None:
    live.consumer("staying")
    until(lambda: live.observed().compared_groups, 30, live.observed)
    live.broker.kill()
    time.sleep(1)
    live.broker.restart()
    count = live.observed().requests["answered"]
    until(lambda: live.observed().requests["answered"] > count + 20, SILENT_S + 30, live.observed)
    until(lambda: live.agent.queries.ready().ready)
    time.sleep(6)
    # Where the broker was away for longer than their sessions, as on a busy machine, members come as new ones, and
    # the join phase lasts until the sessions of the old ones have run out: 45 s. What is in one is not compared.
    until(lambda: live.observed().divergences, 45 + 60, live.observed)
    assert live.observed().divergences == AGREED


@ONCE
def test_a_stop_does_not_wait_for_a_broker(live: Live) -> None:
    live.broker.pause()
    try:
        time.sleep(1)
        began = time.monotonic()
        live.observer.stop()
        took_s = time.monotonic() - began
        assert took_s < TIMEOUT_S, "what waits for a broker waits for that long"
        assert live.observer.readings() is None or took_s >= live.observer.STOP_S
        until(lambda: live.agent.queries.readings().observed is None)
        assert time.monotonic() - began < TIMEOUT_S
    finally:
        live.broker.resume()
