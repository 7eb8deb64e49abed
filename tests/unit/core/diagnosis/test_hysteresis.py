"""A finding opens after its time, closes after its time, and does not flap between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.diagnosis.api import Condition, FindingState, Settings, Severity, Verdict
from agent.core.diagnosis.hysteresis import FindingChange, Hysteresis

INFO, WARNING, CRITICAL = (Condition(severity, f"it is {severity}", "do") for severity in Severity)


def walk(
    hysteresis: Hysteresis, *steps: tuple[int, Condition | None]
) -> list[tuple[int, FindingState, Severity, int]]:
    out = []
    for now_ms, condition in steps:
        change = hysteresis.apply(Verdict(condition), now_ms)
        if change is not None:
            out.append((now_ms, change.state, change.condition.severity, change.since_ms))
    return out


def test_it_opens_when_the_condition_has_held_and_says_since_when() -> None:
    it = Hysteresis(1_000, 5_000)
    assert walk(it, (10, WARNING)) == []
    assert it.due_ms == 1_010
    assert walk(it, (1_009, WARNING)) == []
    assert walk(it, (1_010, WARNING)) == [(1_010, FindingState.FIRING, Severity.WARNING, 10)]
    assert it.due_ms is None


def test_a_condition_that_goes_before_its_time_never_was() -> None:
    it = Hysteresis(1_000, 5_000)
    assert walk(it, (10, WARNING), (500, None)) == []
    assert it.due_ms is None
    assert walk(it, (600, WARNING), (1_500, WARNING)) == []
    assert it.due_ms == 1_600


def test_it_closes_when_the_condition_has_been_gone() -> None:
    it = Hysteresis(0, 5_000)
    assert walk(it, (10, WARNING), (20, None))[-1][1] is FindingState.FIRING
    assert it.due_ms == 5_020
    assert walk(it, (5_000, WARNING), (5_020, None)) == []
    assert walk(it, (10_019, None)) == []
    assert walk(it, (10_020, None)) == [(10_020, FindingState.RESOLVED, Severity.WARNING, 10)]
    assert it.open is None


def test_a_higher_severity_is_told_at_once_and_a_lower_one_after_its_time() -> None:
    it = Hysteresis(0, 5_000)
    assert walk(it, (10, INFO), (20, CRITICAL), (30, WARNING), (5_029, WARNING)) == [
        (10, FindingState.FIRING, Severity.INFO, 10),
        (20, FindingState.FIRING, Severity.CRITICAL, 10),
    ]
    assert it.due_ms == 5_030
    assert it.open is not None
    assert (it.open.severity, it.open.summary) == (Severity.CRITICAL, "it is warning"), "what it says is of now"
    assert walk(it, (5_030, WARNING)) == [(5_030, FindingState.FIRING, Severity.WARNING, 10)]


def test_a_severity_that_comes_back_in_time_is_not_told_again() -> None:
    it = Hysteresis(0, 5_000)
    assert len(walk(it, (10, WARNING), (20, INFO), (4_000, WARNING), (5_500, INFO), (9_000, INFO))) == 1
    assert it.due_ms == 10_500


def test_the_earlier_of_its_own_time_and_the_analyzers_counts() -> None:
    it = Hysteresis(1_000, 5_000)
    it.apply(Verdict(WARNING, 700), 10)
    assert it.due_ms == 700
    it.apply(Verdict(WARNING, 9_000), 700)
    assert it.due_ms == 1_010


def test_an_analyzer_cannot_ask_to_be_woken_in_the_past() -> None:
    with pytest.raises(AssertionError, match="woken at 10"):
        Hysteresis(0, 0).apply(Verdict(None, 10), 10)


def test_a_group_that_goes_takes_its_finding_along() -> None:
    it = Hysteresis(0, 5_000)
    assert it.close() is None
    walk(it, (10, WARNING))
    assert it.close() == FindingChange(FindingState.RESOLVED, 10, WARNING)


def test_the_times_are_those_of_the_settings() -> None:
    it = Hysteresis.of(Settings(open_after_s=1.5, close_after_s=2))
    assert (it.open_after_ms, it.close_after_ms) == (1_500, 2_000)


@given(
    st.lists(st.tuples(st.integers(1, 4_000), st.sampled_from([None, INFO, WARNING, CRITICAL])), max_size=40),
    st.integers(0, 3_000),
    st.integers(0, 3_000),
)
def test_firing_and_resolved_take_turns_and_nothing_flaps(
    steps: list[tuple[int, Condition | None]], open_after_ms: int, close_after_ms: int
) -> None:
    it = Hysteresis(open_after_ms, close_after_ms)
    now_ms, walked = 0, []
    for pause_ms, condition in steps:
        now_ms += pause_ms
        walked.append((now_ms, condition))
    told = walk(it, *walked)
    severity, closed_ms = None, None
    for at_ms, state, now, since_ms in told:
        if state is FindingState.RESOLVED:
            assert severity is not None, "only what is open closes"
            severity, closed_ms = None, at_ms
        else:
            assert now is not severity, "a firing one is told again only with another severity"
            if severity is None:
                assert at_ms >= since_ms + open_after_ms
                assert closed_ms is None or since_ms >= closed_ms
            severity = now
