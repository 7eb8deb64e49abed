"""What analyzers of rebalances share."""

from __future__ import annotations

import gc
from itertools import permutations
from types import FunctionType, ModuleType

import pytest

from agent.common.interning import LONGEST_NAMES, short_name
from agent.core.causes import Cause
from agent.core.diagnosis.api import Finding
from agent.core.diagnosis.engine import PartitionDiagnosis
from agent.core.shadow.mirror import PartitionMirror
from analyzers import windows
from analyzers.registry import select_analyzers
from analyzers.static_membership_advice import StaticMembershipAdvice
from analyzers.windows import DepartureCounter, LostMembers, RecentItems, SeatChains
from tests.unit.analyzers.story import Story
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log


def test_a_window_forgets_what_is_old_and_what_has_no_room() -> None:
    recent: RecentItems[str] = RecentItems(10, kept=2)
    assert recent.expires_ms is None
    assert recent.add(100, "a") == []
    assert recent.add(105, "b") == []
    assert recent.add(106, "c") == [(100, "a")]
    assert (list(recent), recent.expires_ms) == (["b", "c"], 115)
    assert recent.prune(114) == []
    assert recent.prune(115) == [(105, "b")]
    assert len(recent) == 1


def test_rounds_are_departures_by_how_many_there_were_at_once() -> None:
    seats: DepartureCounter[str] = DepartureCounter(1_000, least=2)
    for _ in range(3):
        seats.join("shared")
    seats.join("own")
    for now_ms in range(5):
        seats.leave("shared", now_ms)
        seats.leave("own", now_ms)
        seats.join("own")
    assert seats.departures("shared") == seats.departures("own") == 5
    assert (seats.rounds("shared"), seats.rounds("own"), seats.rounds("nobody")) == (1, 5, 0)
    assert seats.frequent() == {"own"}
    seats.prune(1_003)
    assert seats.rounds("own") == 1
    assert seats.frequent() == set()
    seats.prune(2_000)
    assert seats.departures("own") == 0


def test_more_members_at_a_seat_than_when_it_was_first_left() -> None:
    seats: DepartureCounter[str] = DepartureCounter(1_000, least=2)
    seats.join("s")
    seats.leave("s", 0)
    seats.join("s")
    seats.join("s")
    seats.leave("s", None)
    seats.leave("s", 1)
    assert (seats.departures("s"), seats.rounds("s")) == (2, 1)


def test_turnover_keeps_so_many_departures_and_no_more() -> None:
    seats: DepartureCounter[int] = DepartureCounter(1_000, least=2, kept=3)
    for number in range(10):
        seats.leave(number, 0)
    assert [seats.departures(number) for number in range(10)] == [0] * 7 + [1] * 3
    seats.raise_capacity(4)
    seats.raise_capacity(2)
    seats.leave(10, 0)
    assert [seats.departures(number) for number in range(6, 11)] == [0, 1, 1, 1, 1]


def test_two_of_one_seat_come_back_one_after_the_other() -> None:
    story = Story().change(["a", "b@/h", "b@/h!"]).work(20).lose("b@/h", "b@/h!").change(["b@/h"]).work(4)
    losses = LostMembers(Cause.SESSION_TIMEOUT, 0.5, 60_000, 2)
    for transition in story.log.replayed()[1]:
        losses.observe(transition, transition.at.timestamp_ms)
    assert sorted(lost.returned_ms is None for lost in losses.recent) == [False, True]
    losses.prune(story.log.now_ms + 60_000)
    assert len(losses.recent) == 0


def test_two_of_one_seat_that_never_come_back() -> None:
    story = Story().change(["a", "b@/h", "b@/h!"]).work(20).lose("b@/h").work(20).lose("b@/h!")
    losses = LostMembers(Cause.SESSION_TIMEOUT, 0.5, 10_000, 2)
    for transition in story.log.replayed()[1]:
        losses.observe(transition, transition.at.timestamp_ms)
    assert len(losses.recent) == 2
    losses.prune(story.log.now_ms)
    assert len(losses.recent) == 1
    losses.prune(story.log.now_ms + 10_000)
    # Who comes now takes no place that is still known of.
    for transition in story.change(["b@/h"]).log.replayed()[1]:
        if transition.at.timestamp_ms == story.log.now_ms:
            losses.observe(transition, transition.at.timestamp_ms)
    assert len(losses.recent) == 0


def test_who_left_in_good_order_before_is_not_beside_who_is_lost() -> None:
    story = Story().change(["a", "b"]).work(5)
    for _ in range(3):
        story.change(leave=["b"]).work(5).change(["b"]).work(20)
    story.lose("b").work(5).change(["b"]).work(20).lose("b")
    losses = LostMembers(Cause.SESSION_TIMEOUT, 0.5, 600_000, 2)
    for transition in story.log.replayed()[1]:
        losses.observe(transition, transition.at.timestamp_ms)
    assert [seat.client_id for seat in losses.repeat_offenders()] == ["b"]


def test_a_static_member_that_comes_back_under_other_client_ids_sits_in_one_seat() -> None:
    """As where they are made of the time: one count was left behind for each."""
    log = Log().add(b.new_group())
    for number in range(5):
        log.add(b.classic_group(1, b.member(f"c{number}-{number}", {"t": [0]}, instance_id="i")))
    losses = LostMembers(Cause.SESSION_TIMEOUT, 0.5, 60_000, 2)
    for transition in log.replayed()[1]:
        losses.observe(transition, transition.at.timestamp_ms)
    assert [seat.client_id for seat in losses._seats._here] == ["c4"]
    diagnosis = PartitionDiagnosis(PartitionMirror(log.partition), select_analyzers().makes)
    diagnosis.replay_batch(b.run_of(log.records))
    (advice,) = (it for it in diagnosis._groups[b.GROUP].analyzers if isinstance(it, StaticMembershipAdvice))
    assert advice._here == {"c4": 1}


def restarts(*steps: tuple[str, str, int, int | None]) -> int:
    """How often one place was left: (`join` or `leave`, member id, when, alive last) one after the other."""
    chains: SeatChains[str] = SeatChains()
    for what, member_id, at_ms, alive_ms in steps:
        if what == "join":
            chains.join("seat", member_id, at_ms)
        else:
            chains.leave("seat", member_id, at_ms, alive_ms)
    return chains.restarts("seat", 0)


def test_one_place_of_several_is_left_again_and_again() -> None:
    join_all = [("join", name, 1, None) for name in ("a", "b", "c")]
    loop = [
        step
        for it in range(3)
        for step in (("leave", f"c{it}", 10 + it, None), ("join", f"c{it + 1}", 11 + it, None))
    ]
    assert restarts(*join_all, ("leave", "c", 9, None), ("join", "c0", 9, None), *loop) == 4


@pytest.mark.parametrize("names", list(permutations("bcd")))
@pytest.mark.parametrize("dead", list(permutations("bcd", 2)))
def test_who_is_killed_while_a_join_phase_waits_was_there_before_who_lives(
    names: tuple[str, ...], dead: tuple[str, str]
) -> None:
    """One client is started three times while the session of the first runs out; all come with one rebalance, in the
    order of their ids."""
    come = [("join", name, 45_000, None) for name in names]
    go = [("leave", name, 90_000, 45_000) for name in dead]
    assert restarts(("join", "a", 0, None), ("leave", "a", 45_000, 1_000), *come, *go) == 3


def test_of_two_places_that_are_taken_at_once_each_is_left_for_itself() -> None:
    old = [("join", "a", 0, None), ("join", "b", 0, None), ("leave", "a", 9, None), ("leave", "b", 9, None)]
    new = [("join", "c", 10, None), ("join", "d", 10, None), ("leave", "c", 90_000, 10)]
    assert restarts(*old, *new) == 2


@pytest.mark.parametrize("size", [1, 3, 50])
def test_a_deploy_leaves_each_place_once(size: int) -> None:
    join_all = [("join", f"old-{it}", 1, None) for it in range(size)]
    rolling = [
        step
        for it in range(size)
        for step in (("leave", f"old-{it}", 10 + it, None), ("join", f"new-{it}", 10 + it, None))
    ]
    assert restarts(*join_all, *rolling) == 1
    surge = [
        step
        for it in range(size)
        for step in (("join", f"new-{it}", 10 + it, None), ("leave", f"old-{it}", 10 + it, None))
    ]
    assert restarts(*join_all, *surge) == 1
    at_once = [("leave", f"old-{it}", 10, None) for it in range(size)] + [
        ("join", f"new-{it}", 20, None) for it in range(size)
    ]
    assert restarts(*join_all, *at_once) == 1
    # Killed one after the other, and started again at once: the sessions run out when all are.
    killed = [("join", f"new-{it}", 10_000 + 1_000 * it, None) for it in range(size)]
    killed += [("leave", f"old-{it}", 60_000 + it, 9_000 + 1_000 * it) for it in range(size)]
    assert restarts(*join_all, *killed) == 1


def test_dead_sessions_that_pile_up_are_one_place() -> None:
    """Killed and started again each 10 s, with sessions of 45 s: four are there at once, of which one lives."""
    steps: list[tuple[str, str, int, int | None]] = []
    for cycle in range(5):
        steps.append(("join", f"m{cycle}", 1_000 + 10_000 * cycle, None))
    for cycle in range(4):
        steps.append(("leave", f"m{cycle}", 54_000 + 10_000 * cycle, 9_000 + 10_000 * cycle))
    assert restarts(*steps) == 4


def test_those_that_died_as_a_rebalance_waited_took_each_others_place() -> None:
    steps = [("join", "m0", 1_000, None), *(("join", f"m{it}", 50_000, None) for it in (1, 2, 3))]
    steps.append(("leave", "m0", 50_001, 5_000))
    steps += [("leave", f"m{it}", 95_000, 50_000) for it in (1, 2, 3)]
    assert restarts(*steps) == 4


def test_who_is_back_under_another_id_has_its_place() -> None:
    chains: SeatChains[str] = SeatChains()
    chains.join("seat", "a", 1)
    chains.leave("seat", "a", 10, None)
    chains.join("seat", "b", 20)
    chains.replace("seat", "b", "seat by another name", "c")
    chains.replace("seat", "nobody", "seat", "d")
    assert (chains.restarts("seat", 0), chains.restarts("seat by another name", 0)) == (0, 1)
    chains.leave("seat by another name", "c", 30, None)
    assert chains.restarts("seat by another name", 0) == 2


def test_one_that_died_as_it_came_and_took_nobodys_place() -> None:
    assert restarts(("join", "a", 1_000, None), ("join", "b", 1_000, None), ("leave", "a", 46_000, 1_000)) == 1


def test_places_are_forgotten() -> None:
    chains: SeatChains[str] = SeatChains()
    chains.join("seat", "a", 1)
    chains.leave("seat", "a", 10, None)
    chains.discard("seat", "nobody")
    assert chains.restarts("seat", 9) == 1
    assert chains.restarts("seat", 10) == 0
    chains.forget_before(10)
    chains.join("seat", "b", 20)
    assert chains.restarts("seat", 0) == 0


def test_what_is_empty_is_shared_and_stays_empty() -> None:
    one, other = DepartureCounter[str](60_000, 1), DepartureCounter[str](60_000, 1)
    for it in (one, other):
        it.join("a")
    one.leave("a", 1_000)
    assert (one.frequent(), other.frequent(), other.departures("a")) == ({"a"}, set(), 0)
    other.leave("a", 2_000)
    one.prune(61_000)
    assert (one.frequent(), other.frequent()) == (set(), {"a"})
    one.leave("b", 62_000)
    assert (one.departures("a"), one.departures("b"), other.departures("b")) == (0, 1, 0)
    shared = windows._NO_COUNTS, windows.NONE_BY_KEY, windows._NO_KEYS, windows._NOTHING
    assert shared == ({}, {}, set(), [])


def test_of_members_that_are_gone_no_long_text_is_kept() -> None:
    """Clients choose names of up to 32,767 characters, and windows are of thousands of members in each group."""
    story = Story().change(join=("steady",)).work(5)
    for number in range(4):
        long = f"{'c' * 30_000}{number}"
        story.change(join=(long, f"{long}s!{long}")).work(20).lose(long).work(5).change(leave=(f"{long}s!{long}",))
        story.work(5).change(join=(f"{long}q",)).work(5).stall(f"{long}q").work(3)
    mirror = PartitionMirror(story.log.partition)
    diagnosis = PartitionDiagnosis(mirror, select_analyzers().makes)
    found = diagnosis.replay_batch(b.run_of(story.log.records))
    assert {"rebalance_storm", "session_timeout", "poll_timeout"} <= {
        it.analyzer for it in found if isinstance(it, Finding)
    }
    seen, left = set[int](), list[object](diagnosis._groups[story.group].analyzers)
    while left:
        it = left.pop()
        assert not isinstance(it, str) or len(it) <= 2 * LONGEST_NAMES, it[:20]
        if id(it) not in seen and not isinstance(it, type | ModuleType | FunctionType):
            seen.add(id(it))
            left += gc.get_referents(it)


def test_long_names_that_differ_are_kept_as_others() -> None:
    one, other = (b.member("m-1", instance_id="i" * 500 + end) for end in "ab")
    assert short_name("i" * LONGEST_NAMES) == "i" * LONGEST_NAMES
    assert short_name(one.group_instance_id or "") != short_name(other.group_instance_id or "")
    assert len(short_name("\ud800" * 500)) == LONGEST_NAMES
