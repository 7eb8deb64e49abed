"""The mirror's answers as the same flat facts as the brokers', and both side by side, counted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException
from py4j.protocol import Py4JJavaError

from agent.core.protocol.hashing import partition_for_group
from agent.runtime.agent import Agent
from agent.runtime.parts import AgentOptions
from tests.live.scenarios.yardstick import Facts, UnsettledError, Yardstick, short

Describe = Callable[[str], dict[str, Any] | None]


def facts_of(form: dict[str, Any]) -> Facts:
    """What `describe` answers, in the brokers' words."""
    group_type = form["group_type"]
    facts: Facts = {
        # Kafka has no type of its own for Connect: classic, of protocol type connect.
        "type": "classic" if group_type == "connect" else group_type,
        "state": form["state"],
        "protocol_type": form["protocol_type"] or "",
        "epoch": form["generation"],
        "target_epoch": form["target_generation"],
        "members": sorted(member["member_id"] for member in form["members"]),
        "offsets": sorted((item["topic"], item["partition"]) for item in form["offsets"]),
    }
    if group_type != "consumer" or form["protocol"] is not None:
        facts["assignor"] = form["protocol"] or ""
    for member in form["members"]:
        at = f"member[{member['member_id']}]"
        for name in ("client_id", "instance_id", "rack_id", "assignment", "target", "standby_tasks", "warmup_tasks"):
            facts[f"{at}.{name}"] = member.get(name)
        facts[f"{at}.host"] = member["client_host"]
        facts[f"{at}.epoch"], facts[f"{at}.classic"] = member["member_epoch"], member["uses_classic_protocol"]
    for item in form["offsets"]:
        at = f"offset[{item['topic']}-{item['partition']}]"
        for name in ("offset", "metadata", "leader_epoch"):
            facts[f"{at}.{name}"] = item[name]
    return facts


@dataclass
class Comparison:
    """One reading of all groups: how many values were compared, and which differ."""

    groups: int = 0
    compared: Counter[str] = field(default_factory=Counter)
    """By group."""
    differences: dict[str, list[str]] = field(default_factory=dict)
    """By group."""
    excused: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    """By what was compared: state, host, assignment…"""

    def of(self, group: str, theirs: Facts, ours: Facts) -> None:
        self.groups += 1
        for name, value in theirs.items():
            if name == "assignor" and name not in ours:
                continue  # the broker's default, which no record names
            self.compared[group] += 1
            self.kinds[name.rpartition(".")[2]] += 1
            mine = ours.get(name, "nothing")
            if mine != value:
                self.differ(group, f"{name}: broker {short(value)}, mirror {short(mine)}")

    def differ(self, group: str, text: str) -> None:
        self.differences.setdefault(group, []).append(f"{group}: {text}")

    def excuse(self, partitions: set[int], count: int) -> None:
        """Take differences of groups in these partitions apart: a transaction is open there."""
        for group in list(self.differences):
            if partition_for_group(group, count) in partitions:
                self.excused += self.differences.pop(group)

    def all_differences(self) -> list[str]:
        return [text for texts in self.differences.values() for text in texts]

    @property
    def total(self) -> int:
        return self.compared.total()


def compare(theirs: dict[str, Facts], groups: list[dict[str, Any]], describe: Describe) -> Comparison:
    """Every group that either has."""
    result = Comparison()
    mine = {row["group"] for row in groups}
    for group in sorted(mine | theirs.keys()):
        if group not in theirs:
            result.differ(group, "the mirror has it, the broker has not")
            continue
        form = describe(group) if group in mine else None
        if form is None:
            result.differ(group, "the broker has it, the mirror has not")
            continue
        row = next(row for row in groups if row["group"] == group)
        wrong = [name for name in row if isinstance(form[name], int | str | None) and row[name] != form[name]]
        wrong = [name for name in wrong if name not in ("members", "anomalies")]
        if wrong:
            result.differ(group, f"groups and describe do not agree in {wrong}")
        result.of(group, theirs[group], facts_of(form))
    return result


TRANSITIONAL = {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead"}


def settled_facts(
    yardstick: Yardstick,
    agent: WatchedAgent,
    read: Callable[[], Comparison | Any],
    expected: Callable[[dict[str, Facts]], str | None] = lambda facts: None,
    timeout_s: float = 90,
) -> tuple[dict[str, Facts], Any]:
    """The brokers' facts and what `read` gave, once the same facts stood before and after it.

    Before it: no group between two states, `expected` content (it says what it still misses), and the agent at the
    topic's end as of then.
    """
    deadline = time.monotonic() + timeout_s
    why: str | None = "nothing was asked yet"
    while time.monotonic() < deadline:
        try:
            before = yardstick.facts()
            busy = [group for group, facts in before.items() if facts["state"] in TRANSITIONAL]
            why = f"in transition: {[(group, before[group]) for group in busy]}" if busy else expected(before)
            if why is None:
                await_position(agent, yardstick.ends())
                answer = read()
                time.sleep(0.15)
                changed = _changed(before, yardstick.facts())
                if not changed:
                    return before, answer
                why = f"still changing: {changed[:5]}"
        except (
            UnsettledError,
            KafkaException,
            Py4JJavaError,
        ) as error:  # such as: a group went while it was described
            why = str(error)
        # Each time the brokers are asked of all groups.
        time.sleep(0.5)
    raise AssertionError(f"not settled after {timeout_s} s: {why}")


class WatchedAgent(Agent):
    """Tells how far the mirror is. The reader's own position is ahead of it while a batch is being applied."""

    applied: Mapping[int, int] = {}

    def __init__(self, options: AgentOptions) -> None:
        super().__init__(options)
        step = self._loop._step

        def watched(timeout_s: float) -> None:
            step(timeout_s)
            self.applied = self._parts.reader.positions

        self._loop._step = watched  # type: ignore[method-assign]


def await_position(agent: WatchedAgent, ends: dict[int, int], timeout_s: float = 60) -> None:
    """Until the agent has read up to these offsets."""
    deadline = time.monotonic() + timeout_s
    while True:
        applied = agent.applied
        short_of = {
            number: (applied.get(number), end) for number, end in ends.items() if applied.get(number, -1) < end
        }
        if not short_of:
            return
        assert time.monotonic() < deadline, f"the agent does not come to the end: {short_of} {agent.queries.ready()}"
        time.sleep(0.02)


def _changed(before: dict[str, Facts], after: dict[str, Facts]) -> list[str]:
    out = [f"{group} came or went" for group in before.keys() ^ after.keys()]
    for group in before.keys() & after.keys():
        names = before[group].keys() | after[group].keys()
        out += [f"{group}: {name}" for name in names if before[group].get(name) != after[group].get(name)]
    return out
