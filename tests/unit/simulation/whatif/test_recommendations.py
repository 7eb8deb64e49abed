"""Which settings are said to help a group, and how they are written."""

from __future__ import annotations

from itertools import count

import pytest
from msgspec.structs import replace

from agent.core.inference.session_settings import SessionSetting
from agent.simulation.whatif.changes import ASSIGNOR_CLASSES, BROKERS, CHANGES, Alternative
from agent.simulation.whatif.recommendations import recommend
from agent.simulation.whatif.recorded_script import NOT_REPLAYABLE
from agent.simulation.whatif.recorder import GroupRecording
from tests.unit.core.shadow import build as b
from tests.unit.simulation.whatif.made import History, shared_out
from tests.unit.simulation.whatif.test_capture import needs_capture, recorded, where
from tests.unit.simulation.whatif.test_comparison import crashes


def loop(rounds: int = 4, *, every_ms: int = 20_000) -> tuple[GroupRecording, int]:
    """A member that leaves and comes back under a new id, again and again."""
    history = History()
    history.at(0, *shared_out(["a-1", "b-0"]))
    for at in range(1, rounds + 1):
        history.commits(at * every_ms - 1_000, 0, 1)
        history.at(at * every_ms, *shared_out(["a-1"]))
        history.at(at * every_ms + 2_000, *shared_out(["a-1", f"b-{at}"]))
    return history.recording(), history.now_ms + 60_000


@needs_capture
def test_a_crash_loop_is_helped_by_static_membership() -> None:
    found = recommend(*_whole("audit-loop"))
    best, other = found.gains
    assert (found.tried, found.untold) == (11, "")
    assert (found.rebalances, found.log_rebalances, found.matched, found.generations) == (8, 8, 8, 8)
    assert (best.setting, best.exact) == ("static membership", ("group.instance.id",))
    assert (best.rebalances_before, best.rebalances_after) == (8, 4)
    assert best.stopped_after_s < best.stopped_before_s / 3
    assert "detected only if it does not return" in best.price
    assert best.where == "in every client's configuration, an id of its own for each"
    assert best.assumptions == (f"S{CHANGES['static'].assumes[1:]}.",)
    assert other.exact == (f"partition.assignment.strategy={ASSIGNOR_CLASSES['cooperative-sticky']}",)
    assert not {"static"} & {other.setting}, "what has the best one in it is no other setting"


@needs_capture
def test_what_brokers_say_of_sessions_counts() -> None:
    """With the 45 s that are assumed otherwise, KIP-848 costs more than it saves."""
    recording, *more = _whole("audit-loop")
    found = recommend(replace(recording, kip848_session=SessionSetting(6_000, 1_000)), *more)
    (it,) = (it for it in found.gains if it.setting == "KIP-848")
    assert "; with KIP-848 the session timeout is 6 s and the heartbeat interval 1 s (from the brokers" in it.price


@needs_capture
def test_a_deploy_is_a_trade_and_a_crash_is_helped_by_none() -> None:
    (static,) = recommend(*_whole("audit-deploy")).gains
    assert (static.setting, static.rebalances_after) == ("static membership", 3)
    assert static.stopped_after_s > static.stopped_before_s
    for group in ("emails-crash", "pricing-poll", "stock-coop"):
        found = recommend(*_whole(group))
        assert (found.gains, found.tried > 0, found.untold) == ((), True, "")


def _whole(group: str) -> tuple[GroupRecording, None, None, int]:
    recording, end_ms = recorded(where, group)
    return recording, None, None, end_ms


def test_once_it_is_enough_what_was_tried_is_all() -> None:
    recording, end_ms = loop()
    asked = count()
    some = recommend(recording, None, None, end_ms, lambda: next(asked) >= 3)
    assert 0 < some.tried < 4
    assert some.untold == "replaying it takes longer than there is time for here"
    none = recommend(recording, None, None, end_ms, lambda: True)
    assert (none.tried, none.gains) == (0, ())


def test_a_log_that_shows_only_a_part_of_the_standstill_is_no_silence() -> None:
    """All members died at the end, which no generation's cost holds: nothing was told, and not why."""
    history = crashes()
    history.commits(199_000, *range(6))
    history.at(212_000)
    found = recommend(history.recording(), None, None, b.T0 + 230_000)
    assert (found.gains, found.untold) == (
        (),
        "replayed under today's settings partitions are stopped for 1 min 30 s, and as far as the log shows for 43 "
        "s, so no other times can be trusted",
    )


def test_what_cannot_be_replayed_says_why() -> None:
    assert recommend(GroupRecording("g", ()), None, None, 0).untold == "the log shows no member of it"
    recording, end_ms = loop()
    assert recommend(recording, None, b.T0 - 1, end_ms).untold == "the log shows no member of it in this time"
    for kind, reason in NOT_REPLAYABLE.items():
        last = replace(recording.states[-1], view=replace(recording.states[-1].view, group_type=kind))
        assert recommend(GroupRecording("g", (last,)), None, None, end_ms).untold == reason


LINES = [
    ({"static": True, "session-timeout": 120_000}, ("group.instance.id", "session.timeout.ms=120000")),  # 1
    ({"session-timeout": 6_000}, ("session.timeout.ms=6000", "heartbeat.interval.ms=2000")),  # 2: a third of it
    ({"heartbeat-interval": 500}, ("heartbeat.interval.ms=500",)),  # 3
    ({"poll-timeout": 600_000}, ("max.poll.interval.ms=600000",)),  # 4
    ({"initial-delay": 3_000}, ("group.initial.rebalance.delay.ms=3000",)),  # 5
    ({"protocol": "consumer"}, ("group.protocol=consumer",)),  # 6
    *(
        ({"assignor": name}, (f"partition.assignment.strategy={ASSIGNOR_CLASSES[name]}",))
        for name in CHANGES["assignor"].choices
    ),  # 7-10
]


@pytest.mark.parametrize(("values", "lines"), LINES)
def test_settings_as_they_are_written(values: dict[str, object], lines: tuple[str, ...]) -> None:
    changed = Alternative(values)
    assert changed.config_lines(3_000) == lines
    assert changed.where.startswith(BROKERS) == ("initial-delay" in values)
    assert len(changed.notes) == len(values.keys() & {"static", "assignor", "protocol"})


def test_every_change_is_written() -> None:
    assert {name for values, _ in LINES for name in values} == set(CHANGES)
