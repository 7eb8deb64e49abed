"""What a rollout would have cost under other settings, by what is kept of the group."""

from __future__ import annotations

from agent.core.events.events import Event, event_of
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import Rebalanced
from agent.presentation.rollouts.rollout_list import rollouts_json, span_ms
from agent.simulation.whatif.recent_recordings import RecentRecordings
from agent.simulation.whatif.recorded_script import reconstruct
from agent.simulation.whatif.recorder import GroupRecording
from agent.simulation.whatif.rollout_costs import MARGIN_MS, NO_BEGINNING, rollout_costs
from tests.unit.analyzers.story import Story

NAMES = [f"svc-{number}" for number in range(10)]


def rolled() -> Story:
    """Ten members that leave and come back one after the other: 21 rebalances, with the group's first."""
    story = Story().change(NAMES).work(600)
    for name in NAMES:
        story.change(leave=[name]).work(3)
        story.change(join=[name]).work(20)
    return story.work(900)


def recorded(story: Story, max_states: int = 300, restarts_at: int = 0) -> tuple[GroupRecording, Event]:
    """What an agent keeps that starts anew at a rebalance, the how many-th it is, and the rollout."""
    mirror, kept = PartitionMirror(7), RecentRecordings(max_states_per_group=max_states)
    events: list[Event] = []
    rebalances = 0
    for record in story.log.records:
        kept.before_change(mirror.partition)
        transitions = mirror.replay(record)
        events += map(event_of, transitions)
        kept.observe(mirror, transitions)
        rebalances += (done := any(isinstance(it, Rebalanced) for it in transitions))
        if done and rebalances == restarts_at:
            kept = RecentRecordings(max_states_per_group=max_states)
            kept.seed(mirror)
    recording = kept.recording(story.group)
    assert recording is not None
    (rollout,) = rollouts_json(story.group, events, story.log.now_ms)
    return recording, rollout


def test_only_a_rollout_whose_beginning_is_kept_is_replayed() -> None:
    story = rolled()
    for number, max_states, restarts_at, rebalances, why in (
        (1, 300, 0, 20, "all is kept"),
        (2, 21, 0, 20, "with the group's first state"),
        (3, 20, 0, None, "the newest state before it is gone"),
        (4, 8, 0, None, "half of it is gone"),
        (5, 300, 1, 20, "the group was found before it"),
        (6, 300, 15, None, "the group was found within it"),
        (7, 300, 21, None, "or as it was through"),
    ):
        recording, rollout = recorded(story, max_states, restarts_at)
        costs = rollout_costs(recording, *span_ms(rollout))
        assert costs["untold"] == (None if rebalances else NO_BEGINNING), (number, why)
        assert (costs["today"] and costs["today"]["rebalances"]) == rebalances, (number, why)


def test_the_rollout_of_a_group_that_had_just_begun() -> None:
    story = Story().change(NAMES).work(15)
    for name in NAMES:
        story.change(leave=[name]).work(3)
        story.change(join=[name]).work(20)
    recording, rollout = recorded(story.work(900))
    began_ms, until_ms = span_ms(rollout)
    assert began_ms - MARGIN_MS < recording.states[0].at_ms
    costs = rollout_costs(recording, began_ms, until_ms)
    # The group's first rebalance, 15 s before, is none of the rollout's.
    assert (costs["untold"], costs["today"]["rebalances"]) == (None, rollout["rebalances"])
    assert not GroupRecording("nobody", ()).reaches_back_to(until_ms)


def test_of_one_that_does_not_come_to_rest_the_same_rebalances_are_replayed() -> None:
    """Both counts go to the last rebalance, as long after the last replaced member as it is."""
    story = Story().change(NAMES[:3]).work(600)
    for name in NAMES[:3]:
        story.change(leave=[name]).work(3).change(join=[name]).work(5)
    for _ in range(33):
        story.work(20).change()
    recording, rollout = recorded(story)
    assert (rollout["state"], rollout["rebalances"]) == ("unsteady", 6 + 33)
    assert rollout["last_rebalance_ms"] > rollout["ended_ms"] + 30_000
    costs = rollout_costs(recording, *span_ms(rollout))
    assert (costs["untold"], costs["today"]["rebalances"]) == (None, rollout["rebalances"])


def test_the_pause_before_a_first_rebalance_is_not_told_by_a_later_one() -> None:
    story = rolled()
    told = [reconstruct(recorded(story, it)[0], story.log.now_ms).delay_told for it in (300, 8)]
    assert told == [True, False]
