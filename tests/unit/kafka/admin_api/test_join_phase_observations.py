"""When a join phase began, from what sweeps saw.

Our clock shows 0 at the start; the broker's is `AHEAD` milliseconds further, and a record takes 5 ms to come here.
"""

from __future__ import annotations

import pytest

from agent.core.inference.external_evidence import RebalanceReport
from agent.kafka.admin_api.clock_offset import WINDOW_MS, ClockOffset
from agent.kafka.admin_api.join_phase_observations import ARRIVAL_MS, KEPT_MS, MAX_ERROR_MS, JoinPhaseObservations

AHEAD = 1_790_000_000_000
WAY_MS = 5
GROUP = "orders"


class Story:
    """Sweeps that take 10 ms, and records."""

    def __init__(self) -> None:
        self.sightings = JoinPhaseObservations()

    def sweep(self, at_ms: int, *groups: str, whole: bool = True) -> Story:
        self.sightings.add_sweep(groups, at_ms, at_ms + 10, whole=whole)
        return self

    def record(self, end_ms: int, *, sync_ms: int = 20, group: str = GROUP) -> tuple[int, int] | None:
        """The record of a join phase that ended then by our clock: when it began, and the error, by our clock."""
        written_ms = end_ms + sync_ms
        self.sightings.record_arrived(3, written_ms + AHEAD, written_ms + WAY_MS)
        told = self.sightings.rebalance_report(group, 9, end_ms + AHEAD)
        if told is None:
            return None
        assert told.began_ms is not None
        (evidence,) = told.evidence
        assert evidence["began_ms"] == told.began_ms
        # `Lead` knows the clocks' difference to within the record's way.
        assert told == RebalanceReport("admin_api", told.began_ms, evidence=(evidence,))
        assert (evidence["kind"], evidence["state"]) == ("admin_api", "PreparingRebalance")
        return told.began_ms - AHEAD + WAY_MS, evidence["error_ms"] - ARRIVAL_MS


def test_between_the_sweep_before_and_the_one_that_saw_it() -> None:
    story = Story().sweep(1000).sweep(1250).sweep(1500, GROUP).sweep(1750, GROUP).sweep(2000)
    assert story.record(1900) == ((1250 + 1510) // 2, 130)


def test_one_that_no_sweep_saw() -> None:
    assert Story().sweep(1000).sweep(1250).record(1200) is None
    assert Story().sweep(1000).sweep(1250, "another").record(1300) is None


def test_nothing_is_known_before_the_first_sweep_nor_of_what_it_found_under_way() -> None:
    assert Story().record(1000) is None
    assert Story().sweep(1000, GROUP).sweep(1250, GROUP).record(1300) is None
    assert Story().sweep(1000, whole=False).sweep(1250, GROUP).record(1300) is None


def test_a_sync_phase_that_takes_long() -> None:
    story = Story().sweep(1000).sweep(1250, GROUP)
    for at_ms in range(1500, 9000, 250):
        story.sweep(at_ms)
    assert story.record(1400, sync_ms=7600) == (1130, 130)


def test_a_round_that_follows_at_once() -> None:
    """Between two sweeps one join phase ends and the next begins: it began after the end of the first."""
    story = Story().sweep(1000).sweep(1250, GROUP).sweep(1500, GROUP)
    assert story.record(1600) == (1130, 130)
    story.sweep(1750, GROUP).sweep(2000, GROUP)
    # By the broker's clock, which is why the way of a record counts on the other side only.
    assert story.record(2100) == ((1600 + 1760 + WAY_MS) // 2, (1760 - WAY_MS - 1600 + 1) // 2)


def test_a_sweep_that_was_under_way_as_the_round_ended_says_nothing_of_the_next() -> None:
    story = Story().sweep(1000).sweep(1250, GROUP)
    assert story.record(1502) is not None
    story.sweep(1500, GROUP)  # asked before the end, answered after it
    assert story.record(1700) is None
    story = Story().sweep(1000).sweep(1250, GROUP)
    assert story.record(1502) is not None
    story.sweep(1500, GROUP).sweep(1750, GROUP)
    over = 1502 + WAY_MS
    assert story.record(1900) == ((over + 1760) // 2, (1760 - over + 1) // 2)


def test_the_record_of_the_round_before_comes_late() -> None:
    story = Story().sweep(1000).sweep(1250, GROUP).sweep(1500).sweep(1750, GROUP)
    assert story.record(1400) == (1130, 130)
    assert story.record(1900) == (1630, 130)


def test_of_rounds_that_did_not_complete_the_last_counts() -> None:
    story = Story().sweep(1000)
    for at_ms in (1250, 1750, 2250, 2750, 3250):
        story.sweep(at_ms, GROUP).sweep(at_ms + 250)
    assert story.record(3400) == (3130, 130)


def test_a_sweep_that_missed_a_broker_ends_nothing_and_bounds_nothing() -> None:
    story = Story().sweep(1000).sweep(1250, whole=False).sweep(1500, GROUP, whole=False).sweep(1750, whole=False)
    story.sweep(2000, GROUP).sweep(2250)
    assert story.record(2200) == ((1000 + 1510) // 2, 255)


def test_a_round_that_was_over_long_before_is_another() -> None:
    """The group was seen in a round that did not complete, and not in the short one that did."""
    story = Story().sweep(1000).sweep(1250, GROUP).sweep(1500).sweep(1750)
    assert story.record(2600) is None


def test_a_record_that_comes_late_says_nothing_of_the_clocks() -> None:
    story = Story().sweep(1000).sweep(1250, GROUP).sweep(1500)
    story.sightings.record_arrived(3, 1400 + AHEAD, 4400)
    assert story.sightings.rebalance_report(GROUP, 9, 1400 + AHEAD) is None
    # But for others that came in time before.
    story = Story().sweep(1000).sweep(1250, GROUP).sweep(1500)
    assert story.record(900, group="another") is None
    story.sightings.record_arrived(3, 1400 + AHEAD, 4400)
    assert story.sightings.rebalance_report(GROUP, 9, 1400 + AHEAD) is not None


def test_what_is_known_too_badly_is_not_told() -> None:
    for late_ms, told in ((2 * (MAX_ERROR_MS - ARRIVAL_MS) - 10, True), (2 * (MAX_ERROR_MS - ARRIVAL_MS), False)):
        story = Story().sweep(1000).sweep(1000 + late_ms, GROUP)
        assert (story.record(1000 + late_ms + 50) is not None) is told


def test_what_no_record_follows_is_forgotten() -> None:
    story = Story().sweep(1000).sweep(1250, GROUP).sweep(1500).sweep(1250 + KEPT_MS + 20)
    assert story.sightings._observations == {}
    assert story.record(1400) is None
    story.sweep(2000 + KEPT_MS)
    assert story.sightings._completed == {}, "nor does a group that was told of leave anything behind"


def test_groups_are_apart() -> None:
    story = Story().sweep(1000).sweep(1250, "a").sweep(1500, "a", "b").sweep(1750)
    assert story.record(1600, group="b") == (1380, 130)
    assert story.record(1700, group="a") == (1130, 130)


@pytest.mark.parametrize(
    ("arrivals", "lead"),
    [
        ([], None),  # 1: nothing came
        ([(0, 7)], 7),  # 2
        ([(0, 7), (10, 3), (20, 9)], 3),  # 3: the fastest
        ([(0, 3), (WINDOW_MS, 9), (WINDOW_MS + 1, 8)], 3),  # 4: what came in the window before counts
        ([(0, 3), (WINDOW_MS, 9), (2 * WINDOW_MS, 8)], 8),  # 5: and no longer: the clocks drift
        ([(0, 3), (5 * WINDOW_MS, 9)], 9),  # 6: after a long silence
        ([(0, -50), (1, -40)], -50),  # 7: a broker whose clock is ahead
    ],
)
def test_lead(arrivals: list[tuple[int, int]], lead: int | None) -> None:
    leads = ClockOffset()
    leads.record_arrived(1, 100, 0)
    for at_ms, by in arrivals:
        leads.record_arrived(2, at_ms - by, at_ms)
    assert leads.ahead_ms(2) == lead
