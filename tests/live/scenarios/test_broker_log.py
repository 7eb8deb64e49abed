"""Beside a real broker: what its log says of members that leave no trace in the topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent.core.causes import Cause
from agent.core.shadow.transitions import MemberLeft, Rebalanced, Transition
from agent.kafka.source.brokerlog import BrokerLogFollower
from agent.kafka.source.time_zones import time_zone
from agent.runtime.agent import Agent
from agent.runtime.parts import AgentOptions
from tests.live.scenarios.conftest import Cluster
from tests.live.scenarios.test_run import Running, running
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")


def departures(it: Running, group: str) -> dict[str, float]:
    """By cause, as exported."""
    samples = it.metrics().get("kshadow_group_member_departures", [])
    return {sample.labels["cause"]: sample.value for sample in samples if sample.labels["group"] == group}


def test_causes_are_observed(cluster: Cluster, performance: object, tmp_path: Path) -> None:
    """Nobody writes to the topic, so that members commit nothing: one is killed, one closes."""
    # What starts the broker leaves it the machine's time zone.
    zone, log = "local", cluster.broker.log_file
    seen: list[Transition] = []
    follower = BrokerLogFollower([log], time_zone(zone))
    agent = Agent(AgentOptions(conf=cluster.conf, observe=seen.extend, broker_log=follower))
    arguments = ("--broker-log", str(log), "--broker-log-timezone", zone)
    stage = replace(cluster.stage, protocol="classic")
    group, topic = stage.fleet.name("quiet"), stage.topic(4)

    def rebalances() -> list[Rebalanced]:
        return [it for it in seen if isinstance(it, Rebalanced) and it.group == group]

    def shrunk_to(members: int) -> Callable[[], bool]:
        return lambda: any(it.members == members and it.left for it in rebalances())

    try:
        agent.start()
        until(lambda: agent.queries.ready().ready, said="the agent catches up")
        with running(cluster, tmp_path, *arguments) as it:
            it.await_ready()
            first, second, last = stage.consumers(group, [topic], 3)
            until(lambda: any(it.members == 3 for it in rebalances()), said="three members")
            first.crash()
            until(shrunk_to(2), said="one is thrown out")
            second.leave()
            until(shrunk_to(1), said="one leaves")
            wanted = {"session_timeout": 1.0, "member_left": 1.0}
            until(lambda: departures(it, group) == wanted, said=f"the process saw {departures(it, group)}")
            found = [
                (form["analyzer"], form["state"])
                for form in json.loads(it.get("/api/v1/findings")[1])
                if form["group"] == group
            ]
            assert found == [("session_timeout", "firing")]
            active = it.metrics()["kshadow_finding_active"]
            ours = [(sample.labels["analyzer"], sample.value) for sample in active if sample.labels["group"] == group]
            assert ours == [("session_timeout", 1.0)]
            last.crash()
    finally:
        agent.stop()
        follower.stop()
    # The last is out, and nobody kept an offset: nothing goes on behind the next test's back.
    cluster.compare({group: None})

    assert all(it.observed and it.join_ms is not None and it.join_ms >= 0 for it in rebalances())
    causes = {it.inferred.cause for it in rebalances() if not it.left}
    assert Cause.MEMBER_JOINED in causes
    left = [it.inferred for it in seen if isinstance(it, MemberLeft) and it.group == group]
    assert left[0] is not None
    assert (left[0].cause, left[0].confidence) == (Cause.SESSION_TIMEOUT, 1.0)
    assert left[0].evidence["kind"] == "broker_log"
    assert left[1] is not None
    assert (left[1].cause, left[1].confidence) == (Cause.MEMBER_LEFT, 0.97)
    quoted = [
        evidence for it in rebalances() for evidence in it.inferred.evidence if evidence["kind"] == "broker_log"
    ]
    assert any("on heartbeat expiration" in evidence["reason"] for evidence in quoted)
    assert "not understood" not in (tmp_path / "kshadow.log").read_text()
