"""What alternatives come to: the worked examples of static membership and of timeouts, with their numbers."""

from __future__ import annotations

from typing import Any

import pytest

from agent.simulation.groups.script import Kill
from agent.simulation.groups.simulate import StoppedTime
from agent.simulation.whatif.calibrated_replay import CalibratedReplay, calibrate
from agent.simulation.whatif.changes import CURRENT_SETTINGS, Alternative
from agent.simulation.whatif.comparison import (
    AlternativeOutcome,
    Comparison,
    best_alternatives,
    compare,
    outcome_json,
)
from tests.unit.core.shadow import build as b
from tests.unit.simulation.whatif.made import History, rolling_restart, shared_out


def fit(history: History, end_ms: int) -> CalibratedReplay:
    found = calibrate(history.recording(), b.T0 + end_ms)
    assert found.reproduction.is_exact
    return found


def outcomes(found: CalibratedReplay, *alternatives: dict[str, Any]) -> tuple[AlternativeOutcome, ...]:
    result = compare(found, map(Alternative, alternatives))
    assert result.not_played == ()
    assert result.today.alternative is CURRENT_SETTINGS
    return result.outcomes


@pytest.mark.parametrize("members", [2, 3, 6])
def test_n_members_restarted_one_by_one(members: int) -> None:
    found = fit(rolling_restart(members), 60_000 * (members + 1))
    today, static, brief = outcomes(found, {"static": True}, {"static": True, "session-timeout": 6_000})
    assert (today.rebalances, static.rebalances) == (2 + 2 * members, 2), "2n and none, besides the two at the start"
    assert today.deaths == static.deaths == 0
    # Each is away for 9 s and 1.5 s until the others have noticed, and holds 6 / n partitions meanwhile.
    assert static.stopped.rebalancing == 0
    assert static.stopped.undetected == members * (6 // members) * 9_000
    assert brief.rebalances == 2 + 2 * members, "6 s are too short for 9 s of restart"


def crashes(session_ms: int = 12_000) -> History:
    """A member dies at 30 s and comes back at 90 s."""
    timeouts = {"session_ms": session_ms}
    history = History()
    history.at(0, *shared_out(["a-1"], **timeouts))
    history.at(3_000, *shared_out(["a-1", "b-1"], **timeouts))
    for second in range(4, 30 + session_ms // 1_000):
        history.commits(second * 1_000, *range(6 if second < 30 else 3))
    history.at(30_000 + session_ms, *shared_out(["a-1"], **timeouts))
    history.at(90_000, *shared_out(["a-1", "b-2"], **timeouts))
    return history


def test_a_longer_session_takes_longer_to_notice_a_death() -> None:
    today, longer, covering = outcomes(
        fit(crashes(), 200_000), {"session-timeout": 45_000}, {"static": True, "session-timeout": 120_000}
    )
    assert (today.deaths, len(today.detected_ms), today.detects_ms) == (1, 1, today.detects_at_most_ms)
    assert 9_000 <= (today.detects_ms or 0) <= 12_000
    assert 42_000 <= (longer.detects_ms or 0) <= 45_000
    assert today.stopped.undetected == 3 * (today.detects_ms or 0)
    assert longer.stopped.undetected == 3 * (longer.detects_ms or 0)
    assert today.stopped.undetected <= today.stopped_ms
    assert (covering.deaths, covering.detected_ms, covering.detects_ms) == (1, (), None)
    assert covering.rebalances == 2, "it was back in time"


def test_a_death_at_the_end_is_still_noticed_but_costs_nothing_more() -> None:
    history = History()
    history.at(0, *shared_out(["a-1"], session_ms=12_000))
    for second in range(1, 30):
        history.commits(second * 1_000, *range(6))
    history.at(42_000)
    found = fit(history, 60_000)
    today, longer = outcomes(found, {"session-timeout": 100_000})
    (died,) = [step for step in found.recorded.script.steps if isinstance(step, Kill)]
    assert 9_000 <= (today.detects_ms or 0) <= 12_000
    assert 97_000 <= (longer.detects_ms or 0) <= 100_000
    assert longer.stopped.undetected == 6 * (b.T0 + 42_000 - died.at_ms), "until the end of what was seen"


def test_a_static_member_that_closed_at_the_end_is_still_taken_out() -> None:
    history = History()
    history.at(0, *shared_out(["a-1"]))
    history.at(3_000, *shared_out(["a-1", "b-1"]))
    history.at(60_000)
    today, static = outcomes(fit(history, 60_000), {"static": True})
    assert (today.rebalances, static.rebalances) == (3, 3), "it is only put off"
    assert static.detected_ms == (), "nobody died"
    assert today.stopped_ms == static.stopped_ms == 0


def test_what_it_took_to_get_there_does_not_count() -> None:
    history = History(created=False, generation=9)
    names = ["a-1", "b-1", "c-1"]
    history.at(0, *shared_out(names))
    history.at(60_000, *shared_out(names[:2]))
    found = fit(history, 100_000)
    today, delayed = outcomes(found, {"initial-delay": 20_000})
    assert today.rebalances == delayed.rebalances == 1
    assert 0 < today.stopped_ms < 60_000


def test_a_stall_that_a_longer_poll_timeout_outlasts() -> None:
    timeouts = {"session_ms": 12_000, "rebalance_ms": 30_000}
    history = History()
    history.at(0, *shared_out(["a-1"], **timeouts))
    history.at(3_000, *shared_out(["a-1", "b-1"], **timeouts))
    for second in range(4, 41):
        history.commits(second * 1_000, *range(6 if second <= 10 else 3))
    history.at(42_000, *shared_out(["a-1"], **timeouts))
    history.at(63_000, *shared_out(["a-1", "b-2"], **timeouts))
    today, longer = outcomes(fit(history, 100_000), {"poll-timeout": 120_000})
    assert (today.rebalances, longer.rebalances) == (4, 2)
    assert (today.detects_ms, longer.detects_ms) == (30_000, None)
    assert longer.stopped.undetected == 3 * (61_500 - 10_500)


def test_more_partitions_for_a_group_that_stays() -> None:
    history = History()
    history.at(0, *shared_out(["a-1"], partitions=4))
    history.at(20_000, *shared_out(["a-1"], partitions=8))
    today, static = outcomes(fit(history, 60_000), {"static": True})
    assert (today.rebalances, static.rebalances) == (2, 2)


def test_what_the_model_does_not_know_is_left_out() -> None:
    found = fit(crashes(), 100_000)
    result = compare(found, [Alternative({"assignor": "homemade"}), Alternative({"static": True})])
    assert [it.alternative.label for it in result.outcomes] == ["today's settings", "static membership"]
    assert result.not_played == ((Alternative({"assignor": "homemade"}), "the model has no assignor homemade"),)


def test_what_is_saved() -> None:
    result = compare(fit(rolling_restart(3), 300_000), [Alternative({"static": True})])
    static = result.outcomes[1]
    assert result.saved(static) == (6, result.today.stopped_ms - static.stopped_ms)
    form = outcome_json(result, static)
    assert form["changes"] == {"static": True}
    assert form["saved_rebalances"] == 6
    assert form["stopped_partition_ms"] == static.stopped.rebalancing + static.stopped.undetected
    assert form["detection_median_ms"] is form["detection_max_ms"] is None


def made(rebalances: int, stopped_ms: int) -> AlternativeOutcome:
    return AlternativeOutcome(
        Alternative({"initial-delay": stopped_ms}), rebalances, StoppedTime(stopped_ms, 0, 0), 0, ()
    )


@pytest.mark.parametrize(
    ("others", "by_time", "by_count"),
    [
        pytest.param([], None, None, id="1: nothing was tried"),
        pytest.param([(10, 1_000_000)], None, None, id="2: nothing helps"),
        pytest.param([(10, 960_000)], None, None, id="3: less than the times are known"),
        pytest.param([(10, 500_000), (9, 600_000)], 0, 1, id="4: one each"),
        pytest.param([(2, 500_000), (9, 600_000)], 0, 0, id="5: one for both"),
        pytest.param([(0, 1_600_000), (9, 1_100_000)], None, 1, id="6: what costs too much is no advice"),
        pytest.param([(0, 1_600_000)], None, None, id="7: nor is it alone"),
    ],
)
def test_what_helps_most(others: list[tuple[int, int]], by_time: int | None, by_count: int | None) -> None:
    found = fit(crashes(), 100_000).recorded
    rest = [made(*it) for it in others]
    result = Comparison((made(10, 1_000_000), *rest), ())
    assert best_alternatives(found, result) == (
        None if by_time is None else rest[by_time],
        None if by_count is None else rest[by_count],
    )
