"""Restarts that an instance id would have spared the group, and comings and goings where it would not."""

from __future__ import annotations

import pytest

from agent.core.diagnosis.api import Finding
from tests.unit.analyzers.story import Story, said
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log

ADVICE = "static_membership_advice"


def advice(story: Story, until_s: float = 0, **tuned: str) -> list[Finding]:
    return story.findings(ADVICE, {f"{ADVICE}.{name}": value for name, value in tuned.items()}, until_s)


FLEET = [f"c{number}" for number in range(10)]


def restart(story: Story, client: str, after_s: int = 1, successor: str | None = None) -> Story:
    """A proper restart; the others take two seconds to notice each change, and give up their partitions then."""
    story.work(2, silent=story.members).change(leave=[client]).work(after_s)
    return story.work(2, silent=story.members).change([successor or client]).work(20)


def deployed(*clients: str) -> Story:
    story = Story().change(FLEET).work(20)
    for client in clients:
        restart(story, client)
    return story


def test_restarts_within_a_day() -> None:
    assert advice(deployed("c1", "c2")) == []
    story = deployed("c1", "c2", "c3")
    (opened,) = advice(story)
    assert said([opened]) == [("info", "firing")]
    assert opened.numbers["restarts"] == 3
    assert opened.numbers["rebalances_saved"] == 6
    # Six times ten members and 2.2 s, less one's own partition for some 5 s each time.
    assert 100 < opened.numbers["stopped_partition_s_saved"] < 132
    assert 12 < opened.numbers["away_partition_s"] < 24
    assert opened.numbers["clients"] == ["c1", "c2", "c3"]
    assert opened.numbers["advised_session_timeout_ms"] == 45_000
    assert opened.summary.startswith(
        "3 restarts of c1, c2 and c3 within 24 h: static membership would save 6 rebalances and about 103"
    )
    assert "group.instance.id" in opened.advice
    assert said(advice(story, until_s=87_000)) == [("info", "firing"), ("info", "resolved")]


def test_more_of_it_is_told_as_it_stands() -> None:
    story = deployed("c1", "c2", "c3", "c1")
    closed = advice(story, until_s=87_000)[-1]
    assert closed.numbers["clients"][0] == "c1"


def test_a_rebalance_in_which_nobody_came_or_went_would_have_been_anyway() -> None:
    story = deployed("c1", "c2").work(2, silent=FLEET).change().work(20)
    (opened,) = advice(restart(story, "c3"))
    assert opened.numbers["rebalances_saved"] == 6


def test_sessions_that_ran_out_while_the_client_restarted() -> None:
    story = Story().change(["good", "bad"]).work(20)
    for _ in range(3):
        story.lose("bad", join=["bad"]).work(20)
        story.work(9, silent=["good"])
    assert len(advice(story, min_standstill_s="0")) == 1


def test_a_slow_restart_stands_still_for_longer_than_the_rebalances_take() -> None:
    story = Story().change(FLEET).work(20)
    for client in FLEET[:5]:
        restart(story, client, after_s=120)
    assert advice(story) == []


def test_long_restarts_need_a_longer_session() -> None:
    fleet = [f"c{number}" for number in range(120)]
    story = Story().change(fleet).work(3)
    for client in fleet[:3]:
        restart(story, client, after_s=60)
    (opened,) = advice(story)
    assert opened.numbers["advised_session_timeout_ms"] > 90_000


def test_no_session_is_advised_that_is_shorter_than_the_one_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.analyzers.story.SESSION_S", 60)
    (opened,) = advice(deployed("c1", "c2", "c3"))
    assert opened.numbers["advised_session_timeout_ms"] == 60_000


def test_what_comes_back_late_did_not_restart() -> None:
    story = Story().change(FLEET).work(20)
    for client in FLEET[:4]:
        story.work(2, silent=story.members).change(leave=[client]).pass_by(700)
        story.work(2, silent=story.members).change([client]).work(20)
    assert advice(story) == []


def test_a_rebalance_with_someone_new_in_it_would_have_been_anyway() -> None:
    story = Story().change(FLEET).work(20)
    for number, client in enumerate(FLEET[:4]):
        story.work(2, silent=story.members).change([f"new{number}"], leave=[client]).work(1)
        story.work(2, silent=story.members).change([client]).work(20)
    (opened,) = advice(story, min_restarts="4")
    assert opened.numbers["rebalances_saved"] == 4
    assert advice(story, min_rebalances="5") == []


@pytest.mark.parametrize(
    "client", ["c1!static", "console-consumer"], ids=["has an instance id already", "is a console consumer"]
)
def test_of_no_use_to(client: str) -> None:
    story = Story().change([*FLEET, client]).work(20)
    for _ in range(5):
        if "!" in client:
            story.lose(client).change([client]).work(20)
        else:
            restart(story, client)
    assert advice(story) == []


def test_of_no_use_to_a_group_of_the_console() -> None:
    story = Story("console-consumer-123").change(FLEET).work(20)
    for client in FLEET[:5]:
        restart(story, client)
    assert advice(story) == []


def test_of_no_use_to_who_does_not_poll_or_is_alone() -> None:
    stalled, alone = Story().change(["a", "b"]).work(20), Story()
    for _ in range(5):
        stalled.stall("b").change(["b"]).work(20)
        alone.change(["a"]).work(20).change(leave=["a"]).work(1)
    assert advice(stalled) == advice(alone) == []


def test_a_pod_with_a_new_address_goes_by_a_client_id_of_its_own() -> None:
    story = Story().change([*FLEET, "app@/0"]).work(20)
    for number in range(3):
        restart(story, f"app@/{number}", successor=f"app@/{number + 1}")
    assert advice(story)[0].numbers["clients"] == ["app"]


def test_pods_that_share_a_client_id_and_change_their_address_are_not_told_apart() -> None:
    pods = [f"app@/{number}" for number in range(10)]
    story = Story().change(pods).work(20)
    for number in range(5):
        restart(story, f"app@/{number}", successor=f"app@/{number + 10}")
    assert advice(story) == []


def test_two_of_one_client_id_restart_at_once() -> None:
    pods = [f"app@/{number}" for number in range(10)]
    story = Story().change(pods).work(20)
    for _ in range(2):
        story.work(2, silent=story.members).change(leave=pods[:2]).work(1)
        story.work(2, silent=story.members).change(pods[:1]).work(5)
        story.work(2, silent=story.members).change(pods[1:2]).work(20)
    # The third is back, and the fourth, who went along with it, is not yet.
    assert advice(story)[0].numbers["rebalances_saved"] == 4
    assert advice(story, min_restarts="4")[0].numbers["rebalances_saved"] == 6


def test_of_two_of_one_seat_the_one_that_went_last_is_back() -> None:
    """The other one is gone for good, and makes no restart last longer."""
    story = Story().change([*FLEET, "app@/h", "app@/h!"]).work(20)
    story.work(2, silent=story.members).change(leave=["app@/h!"]).work(60)
    for _ in range(3):
        restart(story, "app@/h")
    (opened,) = advice(story)
    assert opened.numbers["longest_restart_ms"] < 10_000


def test_who_comes_back_from_what_is_no_restart_takes_nobody_elses_place() -> None:
    """One of two is gone for good, the other one stalls and joins again."""
    story = Story().change([*FLEET, "app@/h", "app@/h!"]).work(20)
    story.work(2, silent=story.members).change(leave=["app@/h!"]).work(60)
    story.stall("app@/h").work(5).change(["app@/h"]).work(20)
    for client in FLEET[:3]:
        restart(story, client)
    (opened,) = advice(story)
    assert (opened.numbers["clients"], opened.numbers["restarts"]) == (FLEET[:3], 3)
    assert opened.numbers["longest_restart_ms"] < 10_000


def test_who_was_started_anew_before_its_session_ran_out_is_not_who_is_back_later() -> None:
    """A client that is killed as it waits for its first assignment stays as a ghost beside the one that is started in
    its place, and no later start is its return."""
    waiting = ["app@/h", "app@/h!"]
    story = Story().change([*FLEET, "app@/h"]).work(20).change(waiting[1:])
    for _ in range(4):
        # The live one is started anew in the second in which the killed one's session runs out.
        story.work(9, silent=waiting[1:]).pass_by(0.798).change(waiting, leave=waiting)
    story.work(5)
    for client in FLEET[:2]:
        restart(story, client)
    (opened,) = advice(story)
    assert (opened.numbers["clients"], opened.numbers["restarts"]) == (["app", *FLEET[:2]], 6)
    assert opened.numbers["longest_restart_ms"] < 10_000


def test_cooperative_rounds_that_follow_are_saved_too() -> None:
    """Who comes back gets five partitions in a second round, three seconds after another gave them up."""
    log, pool = Log(), [1, 2, 3, 4, 5]

    def work(seconds: int) -> None:
        for _ in range(seconds):
            log.add(*(b.commit("t", number, at_ms=log.now_ms + 1000) for number in range(6)))

    def write(generation: int, **held: list[int]) -> None:
        members = [b.member(name.replace("_", "-"), {"t": it}, owned={"t": it}) for name, it in held.items()]
        end_ms = log.now_ms + 200
        log.add(b.classic_group(generation, *members, protocol="cooperative-sticky", state_ms=end_ms), after_ms=210)

    write(1, a_0=[0], b_0=pool)
    for number in range(3):
        work(20)
        write(2 + 3 * number, a_0=[0, *pool])
        work(1)
        write(3 + 3 * number, a_0=[0], **{f"b_{number + 1}": []})
        log.now_ms += 3_000
        write(4 + 3 * number, a_0=[0], **{f"b_{number + 1}": pool})
    story = Story()
    story.log = log
    # All but the last round, which has yet to come as the third restart shows.
    assert [it.numbers["rebalances_saved"] for it in advice(story)] == [8]


def test_groups_of_the_new_protocol_need_none() -> None:
    log = Log().add(*(b.c_member(f"{name}-0") for name in FLEET), b.c_epoch(2))
    for epoch in range(3, 13, 2):
        log.add(b.tombstone(8, f"c1-{epoch - 3}"), b.tombstone(5, f"c1-{epoch - 3}"), b.c_epoch(epoch))
        log.add(b.c_member(f"c1-{epoch - 1}"), b.c_epoch(epoch + 1))
    story = Story()
    story.log = log
    assert advice(story, min_standstill_s="0") == []


def test_only_the_newest_thousand_that_went_can_come_back() -> None:
    fleet = [f"c{number}" for number in range(1_002)]
    story = Story().change(["stays", *fleet]).work(3).change(leave=fleet).work(1).change(fleet[:2])
    assert advice(story, min_restarts="1", min_rebalances="1", min_standstill_s="0") == []
