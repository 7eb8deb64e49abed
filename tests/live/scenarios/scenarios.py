"""What the clients do, a scenario a function: it does something, then yields what the brokers are to say before all
groups are compared; then goes on. All scenarios go forward side by side, a step at a time.

An expectation is, by group, a state with a number of members, or None for a group that is to be gone; more may be
asked for with a function of the group's facts.
"""

from __future__ import annotations

import contextlib
import json
import random
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic

from agent.tools.embedded import Jars
from agent.tools.embedded.ports import free_ports
from tests.live.scenarios.fleet import Client, Fleet
from tests.live.scenarios.yardstick import Facts, Yardstick

SESSION_MS = 4000


@dataclass(frozen=True)
class Is:
    """A group as it is to be."""

    state: str
    members: int
    also: Callable[[Facts], bool] = lambda facts: True

    def missing(self, facts: Facts | None) -> str | None:
        if facts is None:
            return "is not there"
        if facts["state"] != self.state or len(facts["members"]) != self.members or not self.also(facts):
            return f"{facts['state']}, {len(facts['members'])} members; {self.state}, {self.members} expected"
        return None


Expected = dict[str, Is | None]
Scenario = Callable[["Stage"], Iterator[Expected]]


def offsets(count: int) -> Callable[[Facts], bool]:
    return lambda facts: len(facts["offsets"]) == count


def reaches(total: int) -> Callable[[Facts], bool]:
    """The committed offsets add up to this: everything was consumed."""
    return lambda facts: sum(value for name, value in facts.items() if name.endswith("].offset")) == total


def assignor(name: str) -> Callable[[Facts], bool]:
    return lambda facts: facts["assignor"] == name


@dataclass
class Stage:
    """What a scenario works with."""

    fleet: Fleet
    yardstick: Yardstick
    dice: random.Random
    extra: Jars | None = None
    protocol: str = "classic"
    shared: dict[str, Any] = field(default_factory=dict)
    """What a scenario leaves for tests that come after it; one for all copies."""
    producer: Producer = field(init=False)

    def __post_init__(self) -> None:
        self.producer = Producer({"bootstrap.servers": self.fleet.bootstrap, "log_level": 2})

    def topic(self, partitions: int, records: int = 0, name: str | None = None) -> str:
        """A topic with so many records in each partition."""
        name = name or self.fleet.name("topic")
        try:
            self.yardstick.admin.create_topics([NewTopic(name, partitions, 1)])[name].result(20)
        except KafkaException as error:
            # A scenario that is played once more has topics of a fixed name already.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        self.fill(name, partitions, records)
        return name

    def fill(self, topic: str, partitions: int, records: int) -> None:
        for number in range(records):
            for partition in range(partitions):
                self.producer.produce(topic, f"{number} two words".encode(), partition=partition)
        assert self.producer.flush(20) == 0

    def becomes_stable(self, group: str, members: int, timeout_s: float = 15) -> bool:
        """Whether a group comes to rest with so many, in time."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            with contextlib.suppress(KafkaException):
                it = self.yardstick.admin.describe_consumer_groups([group], request_timeout=8)[group].result()
                if it.state.name == "STABLE" and len(it.members) == members:
                    return True
            time.sleep(0.2)
        return False

    def consumers(self, group: str, topics: list[str], count: int, **conf: Any) -> list[Client]:
        """Members with ids of their own; `conf` in Python's spelling, session_timeout_ms."""
        return [self.consumer(group, topics, **conf) for _ in range(count)]

    def consumer(self, group: str, topics: list[str], **conf: Any) -> Client:
        settings: dict[str, Any] = {
            "group.id": group,
            "client.id": self.fleet.name("client"),
            "group.protocol": self.protocol,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 300,
            "topic.metadata.refresh.interval.ms": 1000,
            # Dozens of members wait for records most of the time.
            "fetch.wait.max.ms": 1500,
            **{name.replace("_", "."): value for name, value in conf.items()},
        }
        if settings["group.protocol"] == "classic":
            settings = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 400, **settings}
        else:
            # What it logs is shown where its group does not settle (`playing`).
            settings = {"debug": "cgrp", "log_level": 7, **settings}
        return self.fleet.python("consume", conf=settings, topics=topics)


# Groups of either protocol.


def single_then_empty_then_deleted(stage: Stage) -> Iterator[Expected]:
    group, topic = stage.fleet.name("single"), stage.topic(3, 20)
    member = stage.consumer(group, [topic])
    yield {group: Is("Stable", 1, reaches(60))}
    member.leave()
    yield {group: Is("Empty", 0, offsets(3))}
    member = stage.consumer(group, [topic])
    stage.fill(topic, 3, 5)
    yield {group: Is("Stable", 1, reaches(75))}
    member.leave()
    yield {group: Is("Empty", 0)}
    stage.yardstick.admin.delete_consumer_groups([group])[group].result()
    yield {group: None}
    stage.consumer(group, [topic])
    yield {group: Is("Stable", 1, reaches(75))}


def scale_up_and_down(stage: Stage) -> Iterator[Expected]:
    group, topic = stage.fleet.name("scale"), stage.topic(7, 10)
    members = stage.consumers(group, [topic], 2)
    yield {group: Is("Stable", 2, reaches(70))}
    members += stage.consumers(group, [topic], 3)
    yield {group: Is("Stable", 5)}
    stage.fill(topic, 7, 3)
    for member in stage.dice.sample(members, 2):
        member.leave()
        members.remove(member)
    yield {group: Is("Stable", 3, reaches(91))}
    for member in members:
        member.leave()
    yield {group: Is("Empty", 0)}


def members_crash(stage: Stage) -> Iterator[Expected]:
    group, topic = stage.fleet.name("crash"), stage.topic(6, 4)
    members = stage.consumers(group, [topic], 3)
    yield {group: Is("Stable", 3, reaches(24))}
    members[0].crash()
    yield {group: Is("Stable", 2)}
    members[1].crash()
    members[2].crash()
    yield {group: Is("Empty", 0)}


def member_is_paused_and_comes_back(stage: Stage) -> Iterator[Expected]:
    group, topic = stage.fleet.name("pause"), stage.topic(4, 4)
    members = stage.consumers(group, [topic], 2)
    yield {group: Is("Stable", 2, reaches(16))}
    members[0].pause()
    yield {group: Is("Stable", 1)}
    members[0].resume()
    if stage.protocol == "consumer" and not stage.becomes_stable(group, 2):
        # Whoever is thrown out while partitions move may stay in Reconciling for ever, which is not for us to test.
        for member in members:
            member.crash()
        stage.consumers(group, [topic], 2)
    yield {group: Is("Stable", 2)}


def static_members_restart(stage: Stage) -> Iterator[Expected]:
    group, topic = stage.fleet.name("static"), stage.topic(4, 4)
    names = [stage.fleet.name("instance") for _ in range(3)]
    long = {"session_timeout_ms": 40000} if stage.protocol == "classic" else {}
    members = [stage.consumer(group, [topic], group_instance_id=name, **long) for name in names]
    yield {group: Is("Stable", 3, reaches(16))}
    before = stage.yardstick.members(group)
    if stage.protocol == "classic":
        members[0].crash()
    else:  # a broker lets nobody have the name of one that did not say it goes (UNRELEASED_INSTANCE_ID)
        members[0].leave()
        members[0].finish()
    stage.consumer(group, [topic], group_instance_id=names[0], **long)
    yield {group: Is("Stable", 3, lambda facts: facts["members"] != before)}
    if stage.protocol == "classic":
        members[1].leave()  # a static member says no word
        yield {group: Is("Stable", 3)}
        stage.yardstick.java.remove_static_member(group, names[1])
        yield {group: Is("Stable", 2)}
    else:
        members[1].leave()  # a static member that says it will be back, and is not
        yield {group: Is("Stable", 2)}


def more_members_than_partitions(stage: Stage) -> Iterator[Expected]:
    group, topic = stage.fleet.name("idle"), stage.topic(2, 3)
    stage.consumers(group, [topic], 4)
    yield {group: Is("Stable", 4, reaches(6))}


def several_topics_and_more_partitions(stage: Stage) -> Iterator[Expected]:
    group, topics = stage.fleet.name("topics"), [stage.topic(3, 2), stage.topic(2, 2)]
    stage.consumers(group, topics, 2)
    stage.consumers(group, topics[:1], 1)
    yield {group: Is("Stable", 3, reaches(10))}
    stage.yardstick.admin.create_partitions([NewPartitions(topics[0], 6)])[topics[0]].result(20)
    time.sleep(0.5)
    stage.producer = Producer({"bootstrap.servers": stage.fleet.bootstrap, "log_level": 2})  # sees the new ones
    stage.fill(topics[0], 6, 1)
    yield {group: Is("Stable", 3, reaches(16))}


def subscription_by_regex(stage: Stage) -> Iterator[Expected]:
    prefix = stage.fleet.name("regex")
    group = stage.fleet.name("by-regex")
    pattern = "^" + prefix.replace(".", "[.]") + ".*"
    stage.topic(3, 2, f"{prefix}-one")
    stage.consumers(group, [pattern], 2)
    yield {group: Is("Stable", 2, reaches(6))}
    stage.topic(2, 2, f"{prefix}-two")
    yield {group: Is("Stable", 2, reaches(10))}


def deleted_offsets(stage: Stage) -> Iterator[Expected]:
    group, topics = stage.fleet.name("forget"), [stage.topic(4, 5), stage.topic(2, 5)]
    member = stage.consumer(group, topics)
    yield {group: Is("Stable", 1, offsets(6))}
    member.leave()
    yield {group: Is("Empty", 0, offsets(6))}
    stage.yardstick.java.delete_offsets(group, topics[0], [1, 3])
    yield {group: Is("Empty", 0, offsets(4))}
    stage.yardstick.java.delete_offsets(group, topics[0], [0, 2])
    stage.yardstick.java.delete_offsets(group, topics[1], [0, 1])
    yield {group: None}  # 3.9 deletes it with its last offset, 4.3 when it next looks for expired offsets


def topic_is_deleted(stage: Stage) -> Iterator[Expected]:
    group, topics = stage.fleet.name("topic-gone"), [stage.topic(2, 3), stage.topic(3, 3)]
    stage.consumers(group, topics, 2)
    yield {group: Is("Stable", 2, offsets(5))}
    stage.yardstick.admin.delete_topics([topics[0]])[topics[0]].result(20)
    yield {group: Is("Stable", 2, offsets(3))}


BOTH_PROTOCOLS: list[Scenario] = [
    single_then_empty_then_deleted,
    scale_up_and_down,
    members_crash,
    member_is_paused_and_comes_back,
    static_members_restart,
    more_members_than_partitions,
    several_topics_and_more_partitions,
    subscription_by_regex,
    deleted_offsets,
    topic_is_deleted,
]


# What only classic groups have, and offsets without members.


def roundrobin(stage: Stage) -> Iterator[Expected]:
    group, topic = stage.fleet.name("roundrobin"), stage.topic(5, 2)
    stage.consumers(group, [topic], 3, partition_assignment_strategy="roundrobin")
    yield {group: Is("Stable", 3, assignor("roundrobin"))}
    stage.consumer(group, [topic], partition_assignment_strategy="roundrobin,range")
    yield {group: Is("Stable", 4, assignor("roundrobin"))}


def cooperative_sticky(stage: Stage) -> Iterator[Expected]:
    group, topic = stage.fleet.name("cooperative"), stage.topic(8, 2)
    members = stage.consumers(group, [topic], 3, partition_assignment_strategy="cooperative-sticky")
    yield {group: Is("Stable", 3, assignor("cooperative-sticky"))}
    members += stage.consumers(group, [topic], 1, partition_assignment_strategy="cooperative-sticky")
    yield {group: Is("Stable", 4)}
    members[0].leave()
    members[1].crash()
    yield {group: Is("Stable", 2)}


def offsets_only(stage: Stage) -> Iterator[Expected]:
    by_admin, by_client, topic = stage.fleet.name("alter"), stage.fleet.name("assign"), stage.topic(4, 9)
    alter(stage, by_admin, topic, {0: 3, 2: 7})
    metadata = "größer 大 🦔 " + "x" * 500
    commits = [(topic, 0, 4, "", -1), (topic, 1, 5, metadata, 0), (topic, 3, 1, 'a "b" \\ \t\n', 2)]
    stage.fleet.python("commit", conf={"group.id": by_client}, offsets=commits).finish()
    yield {by_admin: Is("Empty", 0, offsets(2)), by_client: Is("Empty", 0, offsets(3))}
    alter(stage, by_admin, topic, {0: 1, 1: 0})
    stage.yardstick.admin.delete_consumer_groups([by_client])[by_client].result()
    yield {by_admin: Is("Empty", 0, offsets(3)), by_client: None}
    stage.yardstick.java.delete_offsets(by_admin, topic, [0])
    stage.fleet.python("commit", conf={"group.id": by_client}, offsets=commits[:1]).finish()
    yield {by_admin: Is("Empty", 0, offsets(2)), by_client: Is("Empty", 0, offsets(1))}
    stage.consumer(by_client, [topic])
    stage.yardstick.java.delete_offsets(by_admin, topic, [1, 2])
    # With its last offset a group goes that was nothing else: at once in 3.9, at the next clean-up in 4.3.
    yield {by_client: Is("Stable", 1, offsets(4)), by_admin: None}


def alter(stage: Stage, group: str, topic: str, positions: dict[int, int]) -> None:
    where = [TopicPartition(topic, partition, offset) for partition, offset in positions.items()]
    request = [ConsumerGroupTopicPartitions(group, where)]
    stage.yardstick.admin.alter_consumer_group_offsets(request)[group].result()


def transactions(stage: Stage) -> Iterator[Expected]:
    topic = stage.topic(4, 9)
    names = {kind: stage.fleet.name(f"tx-{kind}") for kind in ("commit", "abort", "open")}
    first = [[topic, 0, 3], [topic, 1, 4]]
    second = [[topic, 1, 8], [topic, 2, 9]]
    run = stage.fleet.python
    run("transact", group=names["commit"], steps=[[first, "commit"], [second, "commit"]]).finish()
    run("transact", group=names["abort"], steps=[[first, "commit"], [second, "abort"]]).finish()
    open_one = run("transact", group=names["open"], steps=[[first, "commit"], [second, "open"]])
    open_one.await_line("open")
    expected = {
        names["commit"]: Is("Empty", 0, reaches(3 + 8 + 9)),
        names["abort"]: Is("Empty", 0, reaches(3 + 4)),
        names["open"]: Is("Empty", 0, reaches(3 + 4)),
    }
    yield expected
    open_one.leave()
    open_one.finish()
    yield {names["open"]: Is("Empty", 0, reaches(3 + 8 + 9))}


def transaction_before_any_commit(stage: Stage) -> Iterator[Expected]:
    """A group whose first offsets are in a transaction that was aborted: a broker has it, though it holds nothing.

    No read_committed reader sees a record of it, so the mirror has not. Nor has the broker after its next clean-up.
    """
    group, topic = stage.fleet.name("tx-only"), stage.topic(2, 9)
    stage.fleet.python("transact", group=group, steps=[[[[topic, 0, 3]], "abort"]]).finish()
    yield {group: None}
    stage.fleet.python("transact", group=group, steps=[[[[topic, 0, 4]], "commit"]]).finish()
    yield {group: Is("Empty", 0, reaches(4))}


CLASSIC_ONLY: list[Scenario] = [
    roundrobin,
    cooperative_sticky,
    offsets_only,
    transactions,
    transaction_before_any_commit,
]


# What only newer brokers have.


def server_assignor(stage: Stage) -> Iterator[Expected]:
    group, topic = stage.fleet.name("by-server"), stage.topic(5, 2)
    members = stage.consumers(group, [topic], 2, group_protocol="consumer", group_remote_assignor="range")
    yield {group: Is("Stable", 2, assignor("range"))}
    stage.consumers(group, [topic], 3, group_protocol="consumer", group_remote_assignor="uniform")
    yield {group: Is("Stable", 5, assignor("uniform"))}
    members[0].leave()
    yield {group: Is("Stable", 4, assignor("uniform"))}


def migration_by_rolling(stage: Stage) -> Iterator[Expected]:
    """Classic members one by one replaced by KIP-848 members, and back again."""
    group, topic = stage.fleet.name("migrate"), stage.topic(6, 6)
    classic = {"group_protocol": "classic", "session_timeout_ms": 6000}
    old = stage.consumers(group, [topic], 2, **classic)
    yield {group: Is("Stable", 2, lambda facts: facts["type"] == "classic" and reaches(36)(facts))}
    new = [stage.consumer(group, [topic], group_protocol="consumer")]
    yield {group: Is("Stable", 3, lambda facts: facts["type"] == "consumer")}
    old[0].leave()
    new.append(stage.consumer(group, [topic], group_protocol="consumer"))
    yield {group: Is("Stable", 3)}
    old[1].crash()
    yield {group: Is("Stable", 2)}
    stage.consumer(group, [topic], **classic)
    yield {group: Is("Stable", 3, lambda facts: facts["type"] == "consumer")}
    for member in new:
        member.leave()
    yield {group: Is("Stable", 1, lambda facts: facts["type"] == "classic")}


def empty_group_changes_its_protocol(stage: Stage) -> Iterator[Expected]:
    group, topic = stage.fleet.name("convert"), stage.topic(3, 6)
    for protocol in ("classic", "consumer", "classic"):
        member = stage.consumer(group, [topic], group_protocol=protocol)
        yield {group: Is("Stable", 1, lambda facts, it=protocol: facts["type"] == it)}
        member.leave()
        yield {group: Is("Empty", 0)}


def share_group(stage: Stage) -> Iterator[Expected]:
    group, topic = stage.fleet.name("share"), stage.topic(3, 6)
    assert stage.extra is not None
    conf = {"group.id": group, "client.id": stage.fleet.name("client")}
    members = [stage.fleet.python("share", conf=conf, topics=[topic]) for _ in range(2)]
    where = ("--bootstrap-server", stage.fleet.bootstrap, "--topic", topic, "--group", group)
    console = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
    members.append(stage.fleet.java("console", stage.extra, console, *where))
    yield {group: Is("Stable", 3, _all_hold_some)}
    members[0].leave()
    yield {group: Is("Stable", 2, _all_hold_some)}
    members[1].crash()
    yield {group: Is("Stable", 1, _all_hold_some)}
    members[2].leave()
    yield {group: Is("Empty", 0)}
    stage.yardstick.java.delete_share_group(group)
    yield {group: None}


def _all_hold_some(facts: Facts) -> bool:
    return all(facts[f"member[{member}].assignment"] for member in facts["members"])


def streams_groups(stage: Stage) -> Iterator[Expected]:
    """Kafka's WordCountDemo: twice by the streams protocol, once as a classic group."""
    assert stage.extra is not None
    stage.topic(2, 3, "streams-plaintext-input")
    stage.topic(2, 0, "streams-wordcount-output")
    modern, classic = stage.fleet.name("streams"), stage.fleet.name("streams-classic")
    members = [_word_count(stage, modern, "streams"), _word_count(stage, classic, "classic")]
    yield {modern: Is("Stable", 1, _all_hold_some), classic: Is("Stable", 1, offsets(4))}
    members.append(_word_count(stage, modern, "streams"))
    yield {modern: Is("Stable", 2, _all_hold_some)}
    members[0].crash()
    members[1].leave()
    yield {modern: Is("Stable", 1, _all_hold_some), classic: Is("Empty", 0)}
    members[2].leave()
    yield {modern: Is("Empty", 0)}


def _word_count(stage: Stage, application: str, protocol: str) -> Client:
    assert stage.extra is not None
    file = Path(tempfile.mkdtemp(dir=stage.fleet.directory), "streams.properties")
    settings = {
        "bootstrap.servers": stage.fleet.bootstrap,
        "application.id": application,
        "client.id": stage.fleet.name("client"),
        "group.protocol": protocol,
        "state.dir": str(file.parent),
        "commit.interval.ms": "500",
        **({"session.timeout.ms": "6000"} if protocol == "classic" else {}),
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    main_class = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
    return stage.fleet.java(application, stage.extra, main_class, str(file))


def connect(stage: Stage) -> Iterator[Expected]:
    """A Connect cluster of two workers; who runs which task is told by Connect itself."""
    assert stage.extra is not None
    group = stage.fleet.name("connect")
    ports = free_ports(2)
    workers = [_connect_worker(stage, group, port) for port in ports]
    yield {}  # it takes its time: the others go on
    yield {}
    yield {group: Is("Stable", 2)}
    file = Path(tempfile.mkdtemp(dir=stage.fleet.directory), "lines")
    file.write_text("one\ntwo\n")
    for number in range(3):
        source = {"connector.class": "FileStreamSource", "file": str(file), "topic": "lines", "tasks.max": "1"}
        _ask(ports[0], "PUT", f"/connectors/source-{number}/config", source)
    stage.shared["connect"] = {"group": group, "port": ports[0]}
    yield {group: Is("Stable", 2, lambda facts: tasks_of(ports[0]) is not None)}
    workers[1].leave()
    yield {group: Is("Stable", 1)}


def tasks_of(port: int) -> dict[str, dict[str, list[int]]] | None:
    """By worker: connectors (-1) and tasks, as Connect's own API tells; None while not all run."""
    out: dict[str, dict[str, list[int]]] = {}
    status = _ask(port, "GET", "/connectors?expand=status")
    for name, item in status.items():
        rows = [(-1, item["status"]["connector"]), *((row["id"], row) for row in item["status"]["tasks"])]
        if len(rows) != 2 or any(row["state"] != "RUNNING" for _, row in rows):
            return None
        for number, row in rows:
            out.setdefault(row["worker_id"], {}).setdefault(name, []).append(number)
    return out if len(status) == 3 else None


def _connect_worker(stage: Stage, group: str, port: int) -> Client:
    assert stage.extra is not None
    settings = {
        "bootstrap.servers": stage.fleet.bootstrap,
        "group.id": group,
        "client.id": f"127.0.0.1:{port}",  # what its own API calls it
        "listeners": f"http://127.0.0.1:{port}",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.flush.interval.ms": "1000",
        "scheduled.rebalance.max.delay.ms": "1000",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
        "plugin.discovery": "service_load",
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
    }
    for kind in ("offset", "config", "status"):
        settings[f"{kind}.storage.topic"] = f"{group}-{kind}"
        settings[f"{kind}.storage.replication.factor"] = "1"
    file = Path(tempfile.mkdtemp(dir=stage.fleet.directory), "connect.properties")
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return stage.fleet.java("connect", stage.extra, "org.apache.kafka.connect.cli.ConnectDistributed", str(file))


def _ask(port: int, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


NEWER_ONLY: list[Scenario] = [
    server_assignor,
    migration_by_rolling,
    empty_group_changes_its_protocol,
    share_group,
    streams_groups,
    connect,
]


def scenarios(version: str) -> dict[str, tuple[str, Scenario]]:
    """By name: the protocol it is played with, and the scenario."""
    out = {f"classic-{it.__name__}": ("classic", it) for it in (*BOTH_PROTOCOLS, *CLASSIC_ONLY)}
    if version.startswith("4."):
        out |= {f"consumer-{it.__name__}": ("consumer", it) for it in BOTH_PROTOCOLS}
        out |= {it.__name__: ("classic", it) for it in NEWER_ONLY}
    return out
