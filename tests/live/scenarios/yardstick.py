"""What the brokers say of every group, by two Admin clients: librdkafka's, and Kafka's own in a JVM.

librdkafka's knows classic and consumer groups and commits' leader epochs; Kafka's own knows every type of group, and
epochs. A description is a flat table of facts, `{"member[m1].host": "/127.0.0.1", …}`, so that each can be counted.
Kafka's own is reached through py4j (which pyspark brings): one JVM instead of one for each command line tool.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from py4j.java_gateway import GatewayParameters, JavaGateway

from agent.tools.embedded import Jars, ProcessReaper
from agent.tools.embedded.java import find_java, jvm_options

Facts = dict[str, Any]
TOPIC = "__consumer_offsets"
TIMEOUT_S = 8
QUIET = {"log_level": 2}


class JavaAdmin:
    """Kafka's own Admin client."""

    def __init__(self, jars: Jars, bootstrap: str) -> None:
        spec = importlib.util.find_spec("pyspark")
        assert spec is not None
        assert spec.submodule_search_locations is not None
        (py4j,) = Path(spec.submodule_search_locations[0], "jars").glob("py4j-*.jar")
        opens = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("util", "lang", "util.concurrent")]
        options = [*jvm_options(jars.classpath), "-Xmx128m", "-Dlog4j2.level=OFF", *opens]
        classpath = f"{jars.classpath}:{py4j}"
        self._leash = ProcessReaper()
        self._process = subprocess.Popen(
            [str(find_java()), *options, "-cp", classpath, "py4j.GatewayServer", "--die-on-broken-pipe", "0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._leash.watch(self._process.pid)
        assert self._process.stdout is not None
        port = int(self._process.stdout.readline())
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
        self.jvm = self._gateway.jvm
        properties = self.jvm.java.util.Properties()
        properties.put("bootstrap.servers", bootstrap)
        self.admin = self.jvm.org.apache.kafka.clients.admin.Admin.create(properties)

    def close(self) -> None:
        self._gateway.shutdown()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._leash.release(self._process.pid)
        self._leash.close()

    def listing(self) -> dict[str, Facts]:
        """Every group's type, state and protocol."""
        listed = {}
        for item in self.admin.listGroups().all().get():
            listed[item.groupId()] = {
                "type": item.type().get().toString().lower(),
                "state": item.groupState().get().toString(),
                "protocol_type": item.protocol(),
            }
        return listed

    def describe(self, listed: dict[str, Facts]) -> dict[str, Facts]:
        """What only this client tells."""
        of_type: dict[str, list[str]] = {"classic": [], "consumer": [], "share": [], "streams": []}
        for group, facts in listed.items():
            of_type[facts["type"]].append(group)
        out: dict[str, Facts] = {group: {} for group in listed}
        if groups := of_type["classic"]:
            for group, it in self.admin.describeClassicGroups(groups).all().get().items():
                facts = out[group]
                facts["state"], facts["protocol_type"] = it.state().toString(), it.protocol()
                facts["assignor"] = it.protocolData()
                self._members(facts, it.members(), assigned=it.protocol() == "consumer")
        if groups := of_type["consumer"]:
            for group, it in self.admin.describeConsumerGroups(groups).all().get().items():
                facts = out[group]
                facts["epoch"], facts["target_epoch"] = it.groupEpoch().get(), it.targetAssignmentEpoch().get()
                for member in self._members(facts, it.members(), assigned=True):
                    at = f"member[{member.consumerId()}]"
                    facts[f"{at}.epoch"] = member.memberEpoch().get()
                    facts[f"{at}.classic"] = not member.upgraded().get()
                    facts[f"{at}.target"] = _by_topic(member.targetAssignment().get().topicPartitions())
        if groups := of_type["share"]:
            for group, it in self.admin.describeShareGroups(groups).all().get().items():
                facts = out[group]
                facts["state"] = it.groupState().toString()
                facts["epoch"], facts["target_epoch"] = it.groupEpoch(), it.targetAssignmentEpoch()
                for member in self._members(facts, it.members(), assigned=True):
                    facts[f"member[{member.consumerId()}].epoch"] = member.memberEpoch()
        if groups := of_type["streams"]:
            for group, it in self.admin.describeStreamsGroups(groups).all().get().items():
                self._streams(out[group], it)
        self._offsets(out, [group for group, facts in listed.items() if facts["type"] != "share"])
        return out

    def _offsets(self, out: dict[str, Facts], groups: list[str]) -> None:
        spec = self.jvm.org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec
        if groups:
            for group, commits in (
                self.admin.listConsumerGroupOffsets({it: spec() for it in groups}).all().get().items()
            ):
                facts = out[group]
                commits = [(where.topic(), where.partition(), commit) for where, commit in commits.items()]
                facts["offsets"] = sorted((topic, partition) for topic, partition, _ in commits)
                for topic, partition, commit in commits:
                    at = f"offset[{topic}-{partition}]"
                    # Not librdkafka's word: it ends metadata at a NUL, and confluent-kafka commits one with every.
                    facts[f"{at}.offset"], facts[f"{at}.metadata"] = commit.offset(), commit.metadata()

    @staticmethod
    def _members(facts: Facts, members: Any, *, assigned: bool) -> list[Any]:
        members = list(members)
        facts["members"] = sorted(member.consumerId() for member in members)
        for member in members:
            at = f"member[{member.consumerId()}]"
            facts[f"{at}.client_id"], facts[f"{at}.host"] = member.clientId(), member.host()
            if hasattr(member, "groupInstanceId") and "Share" not in member.getClass().getName():
                facts[f"{at}.instance_id"] = member.groupInstanceId().orElse(None)
            if assigned:
                facts[f"{at}.assignment"] = _by_topic(member.assignment().topicPartitions())
        return members

    @staticmethod
    def _streams(facts: Facts, it: Any) -> None:
        facts["state"] = it.groupState().toString()
        facts["epoch"], facts["target_epoch"] = it.groupEpoch(), it.targetAssignmentEpoch()
        members = list(it.members())
        facts["members"] = sorted(member.memberId() for member in members)
        for member in members:
            at = f"member[{member.memberId()}]"
            facts[f"{at}.client_id"], facts[f"{at}.host"] = member.clientId(), member.clientHost()
            facts[f"{at}.instance_id"] = member.instanceId().orElse(None)
            facts[f"{at}.rack_id"] = member.rackId().orElse(None)
            facts[f"{at}.epoch"] = member.memberEpoch()
            facts[f"{at}.assignment"] = _by_subtopology(member.assignment().activeTasks())
            facts[f"{at}.standby_tasks"] = _by_subtopology(member.assignment().standbyTasks())
            facts[f"{at}.warmup_tasks"] = _by_subtopology(member.assignment().warmupTasks())
            facts[f"{at}.target"] = _by_subtopology(member.targetAssignment().activeTasks())

    # What librdkafka's client cannot do.

    def delete_offsets(self, group: str, topic: str, partitions: list[int]) -> None:
        where = self.jvm.java.util.HashSet()
        for partition in partitions:
            where.add(self.jvm.org.apache.kafka.common.TopicPartition(topic, partition))
        self.admin.deleteConsumerGroupOffsets(group, where).all().get()

    def delete_share_group(self, group: str) -> None:
        self.admin.deleteShareGroups([group]).all().get()

    def remove_static_member(self, group: str, instance_id: str) -> None:
        package = self.jvm.org.apache.kafka.clients.admin
        members = self.jvm.java.util.HashSet()
        members.add(package.MemberToRemove(instance_id))
        options = package.RemoveMembersFromConsumerGroupOptions(members)
        self.admin.removeMembersFromConsumerGroup(group, options).all().get()


class Yardstick:
    """The brokers' word on every group, from both clients."""

    def __init__(self, jars: Jars, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.java = JavaAdmin(jars, bootstrap)
        self.admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})

    def close(self) -> None:
        self.java.close()

    def renew(self) -> None:
        """After a restart of the broker: librdkafka's Admin client waits for a connection that never comes again."""
        self.admin = AdminClient({"bootstrap.servers": self._bootstrap, **QUIET})

    def facts(self) -> dict[str, Facts]:
        """By group. librdkafka's word where it gives one; that Kafka's own says the same is asserted here."""
        listed = self.java.listing()
        described = self.java.describe(listed)
        mine = self._librdkafka(listed)
        out: dict[str, Facts] = {}
        for group, facts in listed.items():
            whole = out[group] = dict(facts)
            for source in (described[group], mine[group]):
                for name, value in source.items():
                    known = whole.setdefault(name, value)
                    if known != value:
                        raise UnsettledError(f"{group}: {name}: {known!r} and {value!r}")
        return out

    def _librdkafka(self, listed: dict[str, Facts]) -> dict[str, Facts]:
        out: dict[str, Facts] = {group: {} for group in listed}
        # It refuses to describe others, Connect's among them.
        asked = [group for group, facts in listed.items() if facts["protocol_type"] in ("consumer", "")]
        asked = [group for group in asked if listed[group]["type"] in ("classic", "consumer")]
        listing = self.admin.list_consumer_groups(request_timeout=TIMEOUT_S).result()
        assert not listing.errors
        for item in listing.valid:
            if item.group_id not in listed:
                raise UnsettledError(f"{item.group_id}: new")
            _state(out[item.group_id], item.state)
            out[item.group_id]["type"] = item.type.name.lower()
        described = self.admin.describe_consumer_groups(asked, request_timeout=TIMEOUT_S) if asked else {}
        for group, future in described.items():
            it, facts = future.result(), out[group]
            _state(facts, it.state)
            facts["assignor"] = it.partition_assignor
            facts["members"] = sorted(member.member_id for member in it.members)
            for member in it.members:
                at = f"member[{member.member_id}]"
                facts[f"{at}.client_id"], facts[f"{at}.host"] = member.client_id, member.host
                facts[f"{at}.instance_id"] = member.group_instance_id or None
                if listed[group]["protocol_type"] == "consumer":
                    facts[f"{at}.assignment"] = _by_topic(member.assignment.topic_partitions, python=True)
        futures = {
            group: self.admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], request_timeout=TIMEOUT_S
            )[group]
            for group in listed
            if listed[group]["type"] != "share"
        }
        for group, future in futures.items():
            facts = out[group]
            commits = future.result().topic_partitions
            facts["offsets"] = sorted((commit.topic, commit.partition) for commit in commits)
            for commit in commits:
                at = f"offset[{commit.topic}-{commit.partition}]"
                facts[f"{at}.offset"] = commit.offset
                facts[f"{at}.leader_epoch"] = -1 if commit.leader_epoch is None else commit.leader_epoch
        return out

    def members(self, group: str) -> list[str]:
        """The member ids of one group."""
        described = self.admin.describe_consumer_groups([group], request_timeout=TIMEOUT_S)[group].result()
        return sorted(member.member_id for member in described.members)

    def held_back(self) -> set[int]:
        """The partitions of the topic with an open transaction: no reader of committed records sees beyond it."""
        stable, high = self.ends(), self.ends(IsolationLevel.READ_UNCOMMITTED)
        return {number for number, end in high.items() if end > stable[number]}

    def ends(self, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED) -> dict[int, int]:
        """The last stable offset of each partition of the topic."""
        count = len(self.admin.list_topics(TOPIC, timeout=TIMEOUT_S).topics[TOPIC].partitions)
        asked = {TopicPartition(TOPIC, number): OffsetSpec.latest() for number in range(count)}
        answers = self.admin.list_offsets(asked, isolation_level=isolation, request_timeout=TIMEOUT_S)
        return {where.partition: future.result().offset for where, future in answers.items()}


class UnsettledError(Exception):
    """Two answers of the brokers, one right after the other, differ."""


def _state(facts: Facts, state: Any) -> None:
    # It has no word for Assigning and Reconciling. Its own for a rebalance is REBALANCING.
    if state.name != "UNKNOWN":
        facts["state"] = str(state.name).title().replace("_", "").replace("Rebalancing", "Rebalance")


def _by_topic(partitions: Any, *, python: bool = False) -> dict[str, list[int]]:
    out: dict[str, list[int]] = {}
    for item in partitions:
        topic, number = (item.topic, item.partition) if python else (item.topic(), item.partition())
        out.setdefault(topic, []).append(number)
    return {topic: sorted(numbers) for topic, numbers in sorted(out.items())}


def _by_subtopology(tasks: Any) -> dict[str, list[int]]:
    return {item.subtopologyId(): sorted(item.partitions()) for item in tasks}


def short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) < 300 else text[:300] + "…"
