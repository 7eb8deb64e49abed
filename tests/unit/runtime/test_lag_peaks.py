"""What is kept of how far a group was behind."""

from __future__ import annotations

from itertools import pairwise

from agent.core.events.samples import LagNote
from agent.runtime.lag_peaks import MAX_SPANS, PAUSE_MS, LagPeaks

LOOK_MS = 10_000


def test_peaks_stay_and_spans_are_a_small_part_of_their_age() -> None:
    peaks = LagPeaks()
    for at in range(2_000):
        peaks.add(LagNote(at * LOOK_MS, 5_000 if at == 700 else at % 7, None if at % 2 else at / 1_000))
    told = peaks.notes()
    assert len(told) == MAX_SPANS
    assert told[0].at_ms == 0, "when it began"
    assert max(it.records or 0 for it in told) == 5_000
    (peak,) = (it for it in told if it.records == 5_000)
    now_ms = 1_999 * LOOK_MS
    assert 0 <= 700 * LOOK_MS - peak.at_ms < (now_ms - peak.at_ms) / 4
    assert max(it.seconds or 0.0 for it in told) == 1.998
    lengths = [later.at_ms - one.at_ms for one, later in pairwise(told)]
    assert all(it <= LOOK_MS + (now_ms - at.at_ms) / 4 for it, at in zip(lengths, told, strict=False))
    assert lengths[-1] == LOOK_MS, "the newest are as they were noted"


def test_a_peak_stays_a_bound() -> None:
    peaks = LagPeaks()
    for at in range(2_000):
        peaks.add(LagNote(at * LOOK_MS, at % 7, None, at_least=at == 700))
    (bound,) = (it for it in peaks.notes() if it.at_least)
    assert 0 <= 700 * LOOK_MS - bound.at_ms < (1_999 * LOOK_MS - bound.at_ms) / 4


def test_what_is_noted_after_a_pause_is_not_put_together_with_what_was_before() -> None:
    peaks = LagPeaks()
    for at in range(MAX_SPANS + 3):
        peaks.add(LagNote(at * (PAUSE_MS + 1), at, None))
    assert [it.records for it in peaks.notes()] == list(range(3, MAX_SPANS + 3)), "the oldest go"
    assert {it.seconds for it in peaks.notes()} == {None}
