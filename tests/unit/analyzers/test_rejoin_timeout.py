"""Members that were dropped because they did not rejoin in time: a group of Sarama's, one handler of which stands
still when another member comes."""

from __future__ import annotations

from agent.core.diagnosis.api import Finding
from agent.core.diagnosis.engine import PartitionDiagnosis
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import Rebalanced
from agent.core.wire.classic import MemberMetadata
from agent.core.wire.payloads import ConsumerProtocolAssignment, ConsumerProtocolSubscription, encode_payload
from analyzers.registry import select_analyzers
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log
from tests.unit.core.shadow.scripts import CONSUMER, ModernScript

SESSION_MS, REBALANCE_MS = 6_000, 15_000
SUBSCRIPTION = encode_payload(ConsumerProtocolSubscription(("t",), None), 1)


def sarama(member_id: str, partition: int) -> MemberMetadata:
    assigned = encode_payload(ConsumerProtocolAssignment(b.parts({"t": [partition]})), 0)
    return b.member(
        member_id,
        session_ms=SESSION_MS,
        rebalance_ms=REBALANCE_MS,
        subscription=SUBSCRIPTION,
        assignment=assigned,
    )


def stalled_while_one_joins() -> Log:
    log = Log().add(b.new_group())
    log.add(b.classic_group(1, *(sarama(f"{name}-1", at) for at, name in enumerate("abc"))))
    for second in range(20):
        working = (0, 1, 2) if second < 17 else (1, 2)
        log.now_ms += 1_000
        log.add(*(b.commit("t", at, at_ms=log.now_ms) for at in working), after_ms=0)
    joined_ms = log.now_ms + 100
    # Both that work notice with their next heartbeat, and commit what they give up.
    log.now_ms = joined_ms + 1_200
    log.add(*(b.commit("t", at, at_ms=log.now_ms) for at in (1, 2)), after_ms=0)
    end_ms = joined_ms + REBALANCE_MS
    members = [sarama(f"{name}-1", at) for at, name in enumerate("bcd")]
    log.add(b.classic_group(2, *members, state_ms=end_ms), after_ms=end_ms + 5 - log.now_ms)
    return log


def test_what_is_inferred_of_it() -> None:
    rebalance = [it for it in stalled_while_one_joins().replayed()[1] if isinstance(it, Rebalanced)][-1]
    (gone,) = rebalance.inferred.departures.values()
    assert (rebalance.inferred.cause, gone.cause) == ("member_joined", "rejoin_timeout")
    assert gone.confidence > 0.8
    assert gone.departed_ms == rebalance.at.timestamp_ms - 5
    # Three partitions from when their owners stopped: the one that stood still 3.1 s before the join.
    assert rebalance.stopped_partition_ms is not None
    assert rebalance.stopped_partition_ms in range(2 * 13_800 + 18_000, 2 * 13_900 + 18_300)


def test_the_finding_names_the_setting_as_sarama_does() -> None:
    log = stalled_while_one_joins()
    makes = select_analyzers(["rejoin_timeout", "poll_timeout"]).makes
    diagnosis = PartitionDiagnosis(PartitionMirror(log.partition), makes)
    findings = [it for it in diagnosis.replay_batch(b.run_of(log.records)) if isinstance(it, Finding)]
    opened = {it.analyzer: it for it in findings}
    assert "poll_timeout" not in opened, "Sarama has no such limit"
    found = opened["rejoin_timeout"]
    assert found.severity == "warning"
    assert found.summary == (
        "1 member did not rejoin within the rebalance timeout (15 s) in 1 h, and the whole group "
        "waited: a on 10.0.0.1."
    )
    assert "raise Consumer.Group.Rebalance.Timeout above" in found.advice
    assert found.numbers["rebalance_timeouts_ms"] == [REBALANCE_MS]


def test_in_a_kip_848_group_only_what_is_to_be_given_up_waits() -> None:
    script = ModernScript(CONSUMER, b.GROUP)
    log = Log().add(*script.join("a-1")).add(*script.join("b-1")).add(*script.heartbeat("a-1"))
    log.add(*script.leave("a-1"), after_ms=300_000)
    diagnosis = PartitionDiagnosis(PartitionMirror(log.partition), select_analyzers(["rejoin_timeout"]).makes)
    (found,) = [it for it in diagnosis.replay_batch(b.run_of(log.records)) if isinstance(it, Finding)]
    assert found.summary == (
        "1 member did not rejoin within the rebalance timeout (5 min) in 1 h, and whoever was to get their "
        "partitions waited: a on 10.0.0.1."
    )
