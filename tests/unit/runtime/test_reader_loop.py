"""What the reader's thread does under which lock."""

from __future__ import annotations

from typing import ClassVar

import pytest

from agent.core.diagnosis.api import Analyzer, GroupContext, Verdict
from agent.core.record_time import UNKNOWN
from agent.core.shadow import mirror
from agent.core.shadow.transitions import Transition
from agent.kafka.source.progress import PartitionProgress
from agent.runtime.parts import AgentOptions, AgentParts, build_parts
from agent.runtime.reader_loop import ReaderLoop
from agent.runtime.scrape import ScrapeReader
from tests.unit.core.diagnosis.doubles import chosen
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, run_of


class LocksSeen(Analyzer):
    """Notes which locks are held as it is told of a record: the answers', and the writer's."""

    name = "locks_seen"
    rule = "never"
    false_alarms = "none"
    parts: ClassVar[AgentParts]
    seen: ClassVar[set[tuple[bool, bool]]] = set()

    def observe(self, transition: Transition, group: GroupContext) -> None:
        self.seen.add((self.parts.lock.locked(), self.parts.writing.locked()))

    def judge(self, group: GroupContext) -> Verdict:
        return Verdict()


def test_a_large_group_is_worked_out_while_answers_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = build_parts(AgentOptions(conf={"bootstrap.servers": "127.0.0.1:1"}, analyzers=chosen(LocksSeen)))
    monkeypatch.setattr(LocksSeen, "parts", parts, raising=False)
    loop, log, held = ReaderLoop(parts, lambda: None), Log(), []
    log.add(b.classic_group(1, b.member("m-1", {"t": [0]})))
    log.add(b.classic_group(2, b.member("m-1", {"t": list(range(mirror.LARGE_GROUP))})))
    log.add(b.classic_group(3))
    for record in log.records:
        LocksSeen.seen.clear()
        loop._apply(run_of([record]), UNKNOWN)
        held.append(set(LocksSeen.seen))
    assert held == [{(True, True)}, {(True, True)}, {(False, True)}]
    assert not parts.lock.locked()
    assert not parts.writing.locked()
    assert parts.state.mirror.partitions[log.partition].groups[b.GROUP].state == "Empty"


def test_a_reader_whose_thread_died_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """/healthz said so, while `kshadow_source_healthy` stayed as it had been."""
    parts = build_parts(AgentOptions(conf={"bootstrap.servers": "127.0.0.1:1"}))
    parts.reader._assignment.progress[0] = PartitionProgress(0, 0, 0)  # type: ignore[union-attr]
    loop = ReaderLoop(parts, lambda: None)
    scrape = ScrapeReader(parts, loop)
    assert scrape.read().healthy

    def broken(timeout_s: float) -> list[object]:
        raise MemoryError

    monkeypatch.setattr(parts.reader, "poll", broken)
    loop.start()
    loop.join(30)
    assert isinstance(loop.failure, MemoryError)
    assert not scrape.read().healthy
