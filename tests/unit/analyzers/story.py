"""A group's life as records, for analyzers: members come, work, say goodbye, die or stall."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from agent.core.diagnosis.api import Finding
from agent.core.diagnosis.engine import PartitionDiagnosis
from agent.core.inference.origins import OriginSource
from agent.core.shadow.mirror import PartitionMirror
from agent.core.wire.classic import MemberMetadata
from analyzers.registry import select_analyzers
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log

SESSION_S = 10
POLL_S = 30
NOTICE_MS = 200


class Story:
    """A classic group whose members commit every second; each holds a partition of its own.

    A member goes by the name `client`, or `client@host`, or `client!instance`.
    """

    def __init__(self, group: str = b.GROUP, protocol: str = "range") -> None:
        self.log = Log().add(b.new_group(group))
        self.group, self.protocol = group, protocol
        self.generation = 0
        self.members: dict[str, MemberMetadata] = {}
        self._ids = 0

    def work(self, seconds: int, silent: Collection[str] = ()) -> Story:
        """Time passes; all but the silent commit each second."""
        for _ in range(seconds):
            commits = [
                b.commit("t", number, group=self.group, at_ms=self.log.now_ms + 1000)
                for name, number in self.holds.items()
                if name not in silent
            ]
            self.log.now_ms += 1000
            self.log.add(*commits, after_ms=0)
        return self

    def pass_by(self, seconds: float) -> Story:
        """Time passes without a record."""
        self.log.now_ms += round(seconds * 1000)
        return self

    @property
    def holds(self) -> dict[str, int]:
        """Which partition each member holds."""
        return {name: number for number, name in enumerate(self.members)}

    def change(
        self,
        join: Iterable[str] = (),
        leave: Iterable[str] = (),
        *,
        skipped: int = 0,
        protocol_type: str = "consumer",
    ) -> Story:
        """A rebalance; whoever joins has a new member id."""
        for name in leave:
            del self.members[name]
        for name in join:
            self._ids += 1
            client, _, instance = name.partition("!")
            client, _, host = client.partition("@")
            member = b.member(
                f"{client}-{self._ids}",
                {},
                instance_id=instance or None,
                session_ms=SESSION_S * 1000,
                rebalance_ms=POLL_S * 1000,
                host=host or b.HOST,
            )
            self.members[name] = replace(member, client_id=client)
        self.generation += 1 + skipped
        given = [b.parts({"t": [number]}) for number in range(len(self.members))]
        members = [
            replace(member, assignment=b.encode_payload(b.ConsumerProtocolAssignment(parts), 3))
            for member, parts in zip(self.members.values(), given, strict=True)
        ]
        end_ms = self.log.now_ms + NOTICE_MS
        record = b.classic_group(
            self.generation,
            *members,
            group=self.group,
            protocol=self.protocol,
            protocol_type=protocol_type,
            state_ms=end_ms,
        )
        self.log.add(record, after_ms=NOTICE_MS + 2)
        return self

    def replace(self, *names: str) -> Story:
        """Static members come back before their sessions end, each under a new member id: in the same generation."""
        for name in names:
            self._ids += 1
            member = self.members[name]
            self.members[name] = replace(member, member_id=f"{member.client_id}-{self._ids}")
        at_ms, members = self.log.now_ms, self.members.values()
        record = b.classic_group(self.generation, *members, group=self.group, protocol=self.protocol, state_ms=at_ms)
        self.log.add(record, after_ms=2)
        return self

    def lose(self, *names: str, join: Iterable[str] = ()) -> Story:
        """Members fall silent, and their sessions run out."""
        return self.work(SESSION_S, silent=names).change(join, leave=names)

    def stall(self, *names: str) -> Story:
        """Members fall silent until their poll limit has passed."""
        return self.work(POLL_S, silent=names).change(leave=names)

    def findings(
        self,
        analyzer: str,
        tuned: dict[str, str] | None = None,
        until_s: float = 0,
        origin_source: OriginSource | None = None,
    ) -> list[Finding]:
        """What one analyzer found, by the end of the records and `until_s` after."""
        mirror = PartitionMirror(self.log.partition, origin_source=origin_source)
        diagnosis = PartitionDiagnosis(mirror, select_analyzers([analyzer], tuned).makes)
        out = diagnosis.replay_batch(b.run_of(self.log.records))
        out += diagnosis.advance(self.log.now_ms + round(until_s * 1000))
        return [it for it in out if isinstance(it, Finding)]


def said(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """Severity and state of each."""
    return [(str(it.severity), str(it.state)) for it in findings]
