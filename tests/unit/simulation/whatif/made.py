"""Groups' histories as their coordinators write them, for replays: one generation a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.core.causes import Cause
from agent.core.inference.external_evidence import EvidenceSource, RebalanceReport, ReportedDeparture
from agent.core.shadow.mirror import PartitionMirror
from agent.core.wire.classic import MemberMetadata
from agent.simulation.whatif.recorder import GroupRecorder, GroupRecording
from tests.unit.core.shadow import build as b


class History(b.Log):
    """One group's records. Generations count by themselves, and time is told in milliseconds after `b.T0`."""

    def __init__(self, protocol: str = "range", *, created: bool = True, generation: int = 0) -> None:
        super().__init__()
        self.protocol = protocol
        self.generation = generation
        self.now_ms = b.T0
        if created:
            self.add(b.new_group(), after_ms=0)

    def at(self, at_ms: int, *members: MemberMetadata, skip: int = 0, sync_ms: int = 0, same: bool = False) -> None:
        """A generation whose assignment came at `at_ms`; `skip` never completed before; `same`: the one before."""
        self.generation += 0 if same else 1 + skip
        group = b.classic_group(self.generation, *members, protocol=self.protocol, state_ms=b.T0 + at_ms - sync_ms)
        self.add(group, after_ms=b.T0 + at_ms - self.now_ms)

    def commits(self, at_ms: int, *partitions: int, topic: str = "t") -> None:
        self.add(*(b.commit(topic, it, at_ms=b.T0 + at_ms) for it in partitions), after_ms=b.T0 + at_ms - self.now_ms)

    def recording(self, **told: RebalanceReport) -> GroupRecording:
        """`told`: what a broker's log says of generations, by `g` and their number."""
        recorder = GroupRecorder(b.GROUP)
        recorder.replay_batch(PartitionMirror(self.partition, Knows(told)), b.run_of(self.records))
        return recorder.recording()


class Knows(EvidenceSource):
    """A witness."""

    def __init__(self, answers: Mapping[str, RebalanceReport]) -> None:
        self.answers = answers

    def rebalance_report(self, group: str, generation: int, end_ms: int) -> RebalanceReport | None:
        return self.answers.get(f"g{generation}")


def gone(
    cause: Cause, at_ms: int, *member_ids: str, began_ms: int | None = None, sets_off: bool = True
) -> RebalanceReport:
    """Members went so, at that time after the history's beginning."""
    return RebalanceReport(
        "broker_log",
        began_ms=None if began_ms is None else b.T0 + began_ms,
        cause=cause if sets_off else Cause.MEMBER_JOINED,
        causes=(cause,),
        departures={member_id: ReportedDeparture(cause, b.T0 + at_ms) for member_id in member_ids},
        triggered_ms=b.T0 + at_ms,
    )


def shared_out(names: Sequence[str], partitions: int = 6, **more: object) -> list[MemberMetadata]:
    """Members by their ids, with partitions in consecutive pieces."""
    each = partitions // len(names)
    return [
        b.member(name, {"t": range(at * each, at * each + each)}, **more)  # type: ignore[arg-type]
        for at, name in enumerate(names)
    ]


def rolling_restart(members: int = 3, down_ms: int = 10_000) -> History:
    """Members that start together and are restarted one by one, a minute apart: each has gone before it is back."""
    history = History()
    names = [f"c{number}-1" for number in range(members)]
    history.at(0, *shared_out(names[:1]))
    history.at(3_000, *shared_out(names))
    at_ms = 3_000
    for number in range(members):
        at_ms += 60_000
        history.commits(at_ms, *range(6))
        rest = names[:number] + names[number + 1 :]
        history.at(at_ms + 3_000, *shared_out(rest))
        names[number] = f"c{number}-2"
        history.at(at_ms + 3_000 + down_ms // 3_000 * 3_000, *shared_out(names))
    return history
