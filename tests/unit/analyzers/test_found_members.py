"""Members that were there before anybody looked (`--source admin`): no rebalance tells of them."""

from __future__ import annotations

import pytest

from agent.core.causes import Cause
from agent.core.diagnosis.api import Finding
from agent.core.diagnosis.engine import PartitionDiagnosis
from agent.core.diagnosis.lag_source import KnownLags, ReadCommits
from agent.core.inference.facts import Departure
from agent.core.shadow.sampled import SeenMember
from agent.core.shadow.sampled_mirror import SampledMirror, shard_of
from agent.core.shadow.transitions import LogPosition, MemberLeft
from agent.core.shadow.views import Member
from analyzers.registry import select_analyzers
from analyzers.windows import LostMembers
from tests.unit.core.shadow.looks import T0, Looks, seen

MINUTE = 60_000


class FallingBehind:
    """A lag source: all positions are behind, by more each second."""

    since_ms, until_ms = T0, None

    def lags(self, group: str, commits: ReadCommits, at_ms: int) -> KnownLags:
        return KnownLags(at_ms, dict.fromkeys(commits().slots, 1_000 + (at_ms - T0) // 1_000))


def found(looks: Looks, analyzer: str, until_ms: int) -> list[Finding]:
    mirror = SampledMirror(shard_of(looks.group))
    diagnosis = PartitionDiagnosis(mirror, select_analyzers([analyzer]).makes, lag_source=FallingBehind())
    out = [*diagnosis.replay_batch(looks.batch()), *diagnosis.advance(T0 + until_ms)]
    return [it for it in out if isinstance(it, Finding)]


@pytest.mark.parametrize("group_type", ["classic", "consumer"])
def test_a_consumer_that_hangs_in_a_group_that_never_rebalanced(group_type: str) -> None:
    looks = Looks(group_type=group_type)
    for at_ms in range(0, 10 * MINUTE, MINUTE):
        looks.look(at_ms, "Stable", seen("a", 0), seen("b", 1), positions={} if at_ms else {0: 5, 1: 5})
    assert [str(it.severity) for it in found(looks, "stalled_consumer", 10 * MINUTE)] == ["critical"]


def replaced(looks: Looks, members: list[SeenMember], successors: list[SeenMember]) -> int:
    """All commit each second; one after the other makes room for another, each with a rebalance of its own. When that
    is over."""
    positions = range(len(members))
    at_ms = MINUTE
    for gone, come in zip(list(members), successors, strict=False):
        stay = [it for it in members if it is not gone]
        for left in (stay, [*stay, come]):
            for ago_ms in range(6_000, 0, -1_000):
                looks.look(at_ms - ago_ms, "Stable", *members, positions=dict.fromkeys(positions, at_ms - ago_ms))
            looks.state(at_ms - 250, "Stable").look(at_ms, "PreparingRebalance", *members)
            looks.look(at_ms + 250, "PreparingRebalance", *left)
            looks.state(at_ms + 19_750, "PreparingRebalance").look(at_ms + 20_000, "Stable", *left, positions={})
            members, at_ms = left, at_ms + 40_000
    return at_ms


def test_a_deploy_of_some_of_many_is_no_storm() -> None:
    looks, fleet = Looks(), [seen(f"c{number}", number) for number in range(30)]
    until_ms = replaced(looks, fleet, [seen(f"c{number}", number, member_id=f"c{number}-2") for number in range(7)])
    assert found(looks, "rebalance_storm", until_ms) == []


def test_others_of_its_client_id_say_that_who_comes_is_not_who_went() -> None:
    def member(number: int, host: str) -> SeenMember:
        return SeenMember(f"c-{host}", "c", host, None, {"t": (number,)})

    looks, fleet = Looks(), [member(number, f"/10.0.0.{number}") for number in range(6)]
    until_ms = replaced(looks, fleet, [member(number, f"/10.0.1.{number}") for number in range(4)])
    assert found(looks, "static_membership_advice", until_ms) == []


def test_two_of_one_client_that_were_lost_once_each_are_no_repeat_offender() -> None:
    losses = LostMembers(Cause.SESSION_TIMEOUT, 0.5, 60_000, 2)
    members = [Member(f"c-{number}", "c", "/10.0.0.1") for number in range(2)]
    for member in members:
        losses.find(member)
    for member in members:
        how = Departure(member, Cause.SESSION_TIMEOUT, 0.9, {})
        losses.observe(MemberLeft(LogPosition(0, 1, T0), "g", "classic", 1, member, how), T0)
    assert (len(losses.recent), losses.repeat_offenders()) == (2, [])
