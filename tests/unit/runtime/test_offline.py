"""What is read once: of partitions that a transaction holds back, silence tells nothing."""

from __future__ import annotations

from typing import Any

import pytest

from agent.common.clock import now_ms
from agent.common.workers import usable_cores
from agent.core.open_transactions import OpenTransaction
from agent.core.shadow.classic import ClassicGroup
from agent.core.shadow.transitions import Transition
from agent.runtime.offline import MIN_WORKER_BYTES, OfflineGroups, worker_count
from agent.simulation.whatif.recorder import GroupRecorder
from analyzers.registry import select_analyzers
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import T0, Log, run_of

DAY_MS = 86_400_000


def found(*held_back: int) -> list[str]:
    """The groups that findings are on a day after all but one of their members came to hold nothing."""
    loaded = OfflineGroups("", keep_events=True, chosen=select_analyzers())
    for partition in (0, 1):
        log = Log(partition=partition)
        log.add(b.classic_group(1, b.member("a-1", {"t": [0, 1]}), b.member("b-1", {}), group=f"g{partition}"))
        loaded.apply(run_of(log.records))
    loaded.end_of_input()
    loaded.held_back = {it: OpenTransaction(9, T0) for it in held_back}
    loaded.advance(T0 + DAY_MS)
    return sorted({str(it["group"]) for it in loaded.findings()})


def test_silence_tells_nothing_where_something_is_hidden() -> None:
    assert found() == ["g0", "g1"]
    assert found(1) == ["g0"]
    assert found(0, 1) == []


def begun_ms(*, is_live: bool) -> list[int]:
    """Since when there are findings in a log that begins a year after the time on the wall."""
    loaded = OfflineGroups("", keep_events=True, chosen=select_analyzers(), is_live=is_live)
    log = Log().add(b.classic_group(1, b.member("a-1", {"t": [0, 1]}), b.member("b-1", {})), after_ms=LATER_MS - T0)
    for _ in range(20):
        log.add(b.commit(partition=0), after_ms=60_000)
    loaded.apply(run_of(log.records))
    loaded.finish()
    return [it["since_ms"] for it in loaded.findings()]


LATER_MS = now_ms() + 365 * DAY_MS


def test_a_file_says_the_same_where_the_wall_is_a_year_behind() -> None:
    assert begun_ms(is_live=False) == [LATER_MS]
    assert LATER_MS not in begun_ms(is_live=True)


def test_rows_say_so_and_lag_is_not_known() -> None:
    loaded = OfflineGroups("")
    loaded.apply(run_of(Log(partition=3).add(b.classic_group(1, b.member("a-1", {"t": [0]}))).records))
    loaded.end_of_input()
    assert "stale" not in loaded.groups()[0]
    hides = OpenTransaction(9, T0)
    loaded.held_back = {3: hides}
    assert loaded.groups()[0]["stale"] == {**hides._asdict(), "transactional_ids": []}
    form = loaded.describe(b.GROUP)
    assert form is not None
    assert form["stale"]["since_ms"] == T0


def test_as_many_processes_as_are_worth_it() -> None:
    small, large = 1 << 20, 4 * MIN_WORKER_BYTES
    assert worker_count([small] * 50, None) == min(1, usable_cores())
    assert worker_count([large] * 50, None) == usable_cores()
    assert worker_count([large], None) == 1
    # Who says how many is heeded, as far as there are partitions.
    assert worker_count([small] * 50, 3) == 3
    assert worker_count([small] * 2, 3) == 2
    assert worker_count([], 3) == worker_count([], None) == 0


@pytest.mark.parametrize("recorder", [None, GroupRecorder(b.GROUP)])
def test_a_record_that_raises_ends_no_query(recorder: GroupRecorder | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """`groups` passed over it, while `whatif` of any group of the log ended with a traceback."""
    replay = ClassicGroup.replay

    def fails(group: ClassicGroup, *given: Any) -> list[Transition]:
        if group.name == "bad":
            raise ZeroDivisionError("no such luck")
        return replay(group, *given)

    monkeypatch.setattr(ClassicGroup, "replay", fails)
    told: list[str] = []
    loaded = OfflineGroups("", on_problem=told.append, recorder=recorder)
    log = Log().add(b.classic_group(1, group="bad"), b.classic_group(1, b.member("m-1", {"t": [0]})))
    loaded.apply(run_of(log.records))
    loaded.finish()
    assert loaded.report(told.append)
    assert "could not apply this record" in told[0]
    assert recorder is None or len(recorder.recording().states) == 1
