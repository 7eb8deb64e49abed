"""Storms of each pattern, and what looks like one but is a deploy."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from agent.core.causes import Cause
from agent.core.diagnosis.api import Finding
from agent.core.diagnosis.engine import PartitionDiagnosis
from agent.core.shadow.mirror import PartitionMirror
from analyzers.rebalance_storm import StormRound
from analyzers.registry import select_analyzers
from analyzers.storms import BaselineRate, StormPattern, pattern_clause
from analyzers.windows import ClientIdentity, SeatChains
from tests.unit.analyzers.story import Story, said
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log

STORM = "rebalance_storm"


def storms(story: Story, until_s: float = 0, **tuned: str) -> list[Finding]:
    return story.findings(STORM, {f"{STORM}.{name}": value for name, value in tuned.items()}, until_s)


def crash_loop(rounds: int) -> Story:
    story = Story().change(["good", "bad"]).work(20)
    for _ in range(rounds):
        story.lose("bad", join=["bad"]).work(5)
    return story


def test_a_crash_loop_opens_with_the_third_crash_and_closes_when_it_has_been_over_for_long() -> None:
    assert storms(crash_loop(2)) == []
    story = crash_loop(3)
    (opened,) = storms(story)
    assert said([opened]) == [("warning", "firing")]
    assert opened.numbers["pattern"] == "crash_loop"
    assert opened.numbers["top_clients"] == ["bad"]
    assert opened.numbers["rebalances"] == 4
    assert opened.numbers["never_completed"] == 0
    assert opened.numbers["normal_per_hour"] is None
    assert opened.numbers["causes"] == {"member_joined": 4}
    assert opened.numbers["unstable_share"] == 0.26
    assert opened.summary.startswith("4 rebalances within 10 min: bad left and joined again repeatedly (3 depart")
    assert "were stopped for at least" in opened.summary
    assert "Find why that client stops" in opened.advice
    # Ten minutes after the last crash it is over, and five more until the finding closes.
    assert said(storms(story, until_s=894)) == [("warning", "firing")]
    assert said(storms(story, until_s=896)) == [("warning", "firing"), ("warning", "resolved")]


def test_a_crash_loop_with_growing_pauses_still_shows() -> None:
    story = crash_loop(3)
    for _ in range(5):
        story.change(leave=["bad"]).pass_by(300).change(["bad"]).work(10)
    assert [str(it.state) for it in storms(story)] == ["firing"]


def test_several_clients_in_crash_loops_are_not_told_as_one() -> None:
    """As where brokers did not answer: all left, and to keep them stopped would stop the group."""
    story = Story().change(["a", "b"])
    for _ in range(3):
        story.work(20).lose("a", "b", join=["a", "b"])
    (opened,) = storms(story)
    assert (opened.numbers["pattern"], opened.numbers["top_clients"]) == ("crash_loop", ["a", "b"])
    assert "a and b left and joined again repeatedly (6 departures)" in opened.summary
    assert opened.advice.startswith("Find what those clients have in common")
    assert "until then" not in opened.advice


def test_a_mixture_of_which_the_last_ten_minutes_show_one_cause() -> None:
    story = Story().change(["good", "a", "b"])
    for first, then in ("ab", "ba", "ab"):
        story.work(20).lose("a", "b", join=[first]).change([then]).pass_by(660)
    (opened,) = storms(story)
    assert (opened.numbers["pattern"], len(opened.numbers["causes"])) == ("mixture", 1)
    assert ": a and b left repeatedly in several ways (6 departures within 30 min)" in opened.summary


def test_a_slow_crash_loop_says_over_how_long_departures_are_counted() -> None:
    """Alone, one rebalance within ten minutes is no reason."""
    story = Story().change(["good", "bad"]).work(20)
    for _ in range(3):
        story.lose("bad", join=["bad"]).pass_by(660)
    (opened,) = storms(story)
    assert opened.summary.startswith("1 rebalance within 10 min")
    assert opened.summary.endswith(": bad left and joined again repeatedly (3 departures within 30 min).")


def test_a_new_host_at_each_restart_but_a_client_id_of_its_own() -> None:
    story = Story().change(["good", "bad@/0"]).work(20)
    for number in range(3):
        story.lose(f"bad@/{number}", join=[f"bad@/{number + 1}"]).work(5)
    (opened,) = storms(story)
    assert opened.numbers["pattern"] == "crash_loop"


def test_static_members_in_a_crash_loop_go_by_their_instance() -> None:
    story = Story().change(["good", "c@/0!bad"]).work(20)
    for _ in range(3):
        story.lose("c@/0!bad").change(["c@/0!bad"]).work(20)
    (opened,) = storms(story)
    assert opened.numbers["top_clients"] == ["bad"]


def test_a_static_member_in_a_crash_loop_that_is_back_in_time_now_and_then() -> None:
    """Which is no rebalance: its place is the one that is left again and again."""
    story = Story().change(["good", "c@/0!bad"]).work(20)
    for _ in range(3):
        story.replace("c@/0!bad").work(20).lose("c@/0!bad").change(["c@/0!bad"]).work(20)
    (opened,) = storms(story)
    assert opened.numbers["top_clients"] == ["bad"]


def test_the_only_member_in_a_crash_loop() -> None:
    story = Story().change(["bad"])
    for _ in range(3):
        story.work(20).lose("bad").change(["bad"])
    (opened,) = storms(story)
    assert opened.numbers["pattern"] == "crash_loop"


def test_a_batch_job_that_comes_and_goes_alone_disturbs_nobody() -> None:
    story = Story()
    for _ in range(20):
        story.change(["batch"]).work(5).change(leave=["batch"]).pass_by(60)
    assert storms(story) == []


def rolling(story: Story, fleet: list[str], successors: list[str]) -> Story:
    for old, new in zip(fleet, successors, strict=True):
        story.change(leave=[old]).work(2).change([new]).work(2)
    return story


def test_a_rolling_deploy_is_no_storm_unless_it_goes_on_and_on() -> None:
    fleet = [f"c{number}" for number in range(30)]
    story = rolling(Story().change(fleet).work(20), fleet, fleet)
    assert story.generation == 61
    assert storms(story) == []
    # Rolled back within half an hour: still none. But a third time is too much.
    assert storms(rolling(story, fleet, fleet)) == []
    found = storms(rolling(story, fleet, fleet), until_s=3_600)
    assert said(found) == [("warning", "firing"), ("warning", "resolved")]
    # It opened with the first client that went for the third time, and then saw what it is.
    assert [it.numbers["pattern"] for it in found] == ["crash_loop", "churn"]


def test_pods_that_share_a_client_id_are_told_by_their_number() -> None:
    pods = [[f"app@/{deploy}.{number}" for number in range(10)] for deploy in range(4)]
    story = rolling(Story().change(pods[0]).work(20), pods[0], pods[1])
    assert storms(rolling(story, pods[1], pods[2])) == []
    (opened,) = storms(rolling(story, pods[2], pods[3]))
    assert opened.numbers["pattern"] == "churn"
    assert "members are replaced repeatedly: app (21 departures)" in opened.summary


def test_clients_that_never_come_back_are_churn_too() -> None:
    story = Story().change(["a0", "b0"]).work(5)
    for number in range(4):
        story.change(leave=[f"a{number}"]).work(2).change([f"a{number + 1}"]).work(2)
        story.change(leave=[f"b{number}"]).work(2).change([f"b{number + 1}"]).work(2)
    (opened,) = storms(story)
    assert opened.numbers["pattern"] == "churn"
    assert storms(story, min_rebalances="9") == []


def test_sessions_that_flap() -> None:
    story = Story().change(["a", "b", "c"]).work(20)
    for _ in range(3):
        story.lose("b", "c").pass_by(3).change(["b", "c"]).work(15)
    opened = storms(story)[0]
    assert opened.numbers["pattern"] == "flapping_sessions"
    assert "sessions of b and c timed out repeatedly" in opened.summary


@pytest.mark.parametrize(("returns_s", "pattern"), [(0, "crash_loop"), (5, "flapping_sessions")])
def test_two_pods_that_share_a_client_id_each_go_again_and_again(returns_s: int, pattern: str) -> None:
    pods = ["app@/a", "app@/b"]
    story = Story().change(["good", *pods]).work(20)
    for pod in pods * 3:
        story.lose(pod, join=[] if returns_s else [pod]).work(returns_s)
        if returns_s:
            story.change([pod]).work(5)
    assert storms(story, until_s=900)[-1].numbers["pattern"] == pattern


def test_sessions_of_many_that_run_out_once_each() -> None:
    fleet = [f"c{number}" for number in range(7)]
    story = Story().change(["a", *fleet]).work(20)
    for client in fleet:
        story.lose(client).work(20)
    (opened,) = storms(story)
    assert opened.numbers["pattern"] == "flapping_sessions"
    assert "c0, c1, c2 and 3 more" in opened.summary
    assert len(opened.numbers["top_clients"]) == 5


def test_a_client_that_stalls_again_and_again() -> None:
    story = Story().change(["a", "b"]).work(20)
    for _ in range(3):
        story.stall("b").pass_by(5).change(["b"]).work(20)
    opened = storms(story)[0]
    assert opened.numbers["pattern"] == "poll_stalls"
    assert "max.poll.records" in opened.advice


def test_members_that_rejoin_without_a_reason() -> None:
    story = Story().change(["a", "b"]).work(20)
    for _ in range(6):
        assert storms(story) == []
        story.change().work(2)
    (opened,) = storms(story)
    assert opened.numbers["pattern"] == "rejoin_loop"
    assert opened.numbers["causes"] == {"leader_rejoined": 6, "member_joined": 1}
    # The first falls out of the window, then the finding waits to close.
    assert said(storms(story, until_s=886)) == [("warning", "firing")]
    assert said(storms(story, until_s=890)) == [("warning", "firing"), ("warning", "resolved")]


def test_generations_that_never_complete() -> None:
    story = Story().change(["a", "b"]).work(20).change(skipped=7).work(2)
    (opened,) = storms(story)
    assert opened.numbers["pattern"] == "never_completed"
    assert opened.numbers["never_completed"] == 7
    assert opened.numbers["rate_per_hour"] == 54.0
    assert opened.summary.startswith("2 rebalances within 10 min and 7 more that never completed: rebalances begin")


def test_generations_that_joins_explain_are_no_storm() -> None:
    fleet = [f"c{number}" for number in range(9)]
    story = Story().change(["a"]).work(20).change(fleet, skipped=8).work(2)
    assert storms(story) == []
    # Everybody new, but more generations than that explains.
    story.change(["z"], leave=["a", *fleet], skipped=30)
    assert storms(story)[0].numbers["pattern"] == "never_completed"


def test_cooperative_rounds_that_never_settle() -> None:
    log = Log().add(b.classic_group(1, b.member("a-1", {"t": [0, 1]}), protocol="cooperative-sticky"))
    for generation in range(2, 12):
        # Partition 1 was taken back and is given to nobody.
        members = [b.member("a-1", {"t": [0]}, owned={"t": [0]}), b.member("b-1", {"t": []})]
        log.add(b.classic_group(generation, *members, protocol="cooperative-sticky"))
    story = Story()
    story.log = log
    opened = storms(story)[0]
    assert opened.numbers["pattern"] == "cooperative_rounds"
    assert opened.numbers["rebalances"] == 10


def flipping(generations: int, *members: str) -> Story:
    log = Log().add(b.classic_group(1, *(b.member(f"{name}-1", {"t": [0]}, topics=["t"]) for name in members)))
    topics = {name: ["t"] for name in members}
    for generation in range(2, generations + 2):
        flips = members[generation % len(members)]
        topics[flips] = ["t"] if len(topics[flips]) == 2 else ["t", "u"]
        log.add(b.classic_group(generation, *(b.member(f"{it}-1", {"t": [0]}, topics=topics[it]) for it in members)))
    story = Story()
    story.log = log
    return story


def test_subscriptions_that_flip() -> None:
    opened = storms(flipping(8, "a", "b"))[0]
    assert opened.numbers["pattern"] == "subscription_changes"


def test_a_deploy_that_changes_each_members_subscription_once_is_no_storm() -> None:
    assert storms(flipping(12, *"abcdefghijkl")) == []


def test_a_topic_that_grows_and_grows() -> None:
    log = Log()
    for generation in range(1, 9):
        log.add(b.classic_group(generation, b.member("a-1", {"t": range(generation)})))
    story = Story()
    story.log = log
    assert storms(story)[0].numbers["pattern"] == "subscription_changes"


def test_a_group_of_thousands_is_kept_track_of() -> None:
    fleet = [f"c{number}" for number in range(4_000)]
    story = Story().change(["good", *fleet])
    for _ in range(3):
        story.pass_by(20).change(fleet, leave=fleet)
    (opened,) = storms(story)
    assert opened.numbers["pattern"] == "churn"
    assert "c0, c1, c10 and 3,997 more (12,000 departures)" in opened.summary


def test_a_crash_loop_of_many_that_share_a_client_id_costs_no_more_with_each_round() -> None:
    """Each has another host at each restart, as pods do: they are told by their client id alone."""
    story = Story().change(["good", *(f"bad@/0.{number}" for number in range(16))])
    for round_ in range(80):
        came = [f"bad@/{round_ + 1}.{number}" for number in range(16)]
        story.pass_by(20).change(came, leave=[f"bad@/{round_}.{number}" for number in range(16)])
    began = time.process_time()
    opened = storms(story)[0]
    assert opened.numbers["pattern"] == "churn"
    assert time.process_time() - began < 12


def test_what_many_left_that_share_a_client_id_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = [f"c@/{number}" for number in range(100)]
    story = Story().change(["good", *fleet]).work(1).change(leave=fleet)
    asked: list[str] = []
    restarts = SeatChains[ClientIdentity].restarts

    def counted(chains: SeatChains[ClientIdentity], key: ClientIdentity, since_ms: int) -> int:
        asked.append(key.host)
        return restarts(chains, key, since_ms)

    monkeypatch.setattr(SeatChains, "restarts", counted)
    assert storms(story) == []
    assert asked.count("") == 1


def test_several_causes() -> None:
    story = Story().change(["a", "b"]).work(20).change(skipped=3).work(2).change().work(2).change().work(2)
    (opened,) = storms(story)
    assert opened.numbers["pattern"] == "mixture"
    assert "several causes: leader_rejoined 2, member_joined 1, unknown 1" in opened.summary


def test_loops_and_rounds_that_never_complete() -> None:
    story = Story().change(["good", "bad"]).work(20)
    for _ in range(3):
        story.lose("bad", join=["bad"]).work(5).change(skipped=1)
    assert storms(story)[0].numbers["pattern"] == "mixture"


def connect(changes: int) -> Story:
    log = Log()
    for generation in range(1, changes + 2):
        workers = [b.worker(f"w-{number}", {"sink": [number]}) for number in (1, 2)]
        log.add(b.classic_group(generation, *workers, protocol_type="connect", protocol="sessioned"))
    story = Story()
    story.log = log
    return story


def test_managing_connectors_is_no_storm() -> None:
    assert storms(connect(20)) == []


@pytest.mark.parametrize(
    ("waited_ms", "stopped_ms", "since_previous_ms", "unstable_ms"),
    [
        (None, 8_000, None, 1_000),
        (60_000, 8_000, None, 1_000),  # members worked on, through most of it
        (500, 8_000, None, 500),
        (60_000, 8_000, 300, 300),
        (60_000, None, 90_000, None),
    ],
)
def test_a_group_that_waits_may_work(
    waited_ms: int | None, stopped_ms: int | None, since_previous_ms: int | None, unstable_ms: int | None
) -> None:
    of = StormRound(1, Cause.MEMBER_JOINED, 0, Counter(), waited_ms, stopped_ms, since_previous_ms, 8)
    assert of.unstable_ms == unstable_ms


def modern(rounds: int) -> Log:
    log = Log().add(b.c_member("good-1"), b.c_member("bad-0"), b.c_epoch(2))
    for number in range(rounds):
        log.add(b.tombstone(8, f"bad-{number}"), b.tombstone(5, f"bad-{number}"), b.c_epoch(3 + 2 * number))
        log.add(b.c_member(f"bad-{number + 1}"), b.c_epoch(4 + 2 * number), after_ms=60_000)
    return log


def test_epochs_are_cheap_but_a_crash_loop_is_one_and_never_critical() -> None:
    story = Story()
    story.log = modern(60)
    findings = storms(story)
    assert said(findings) == [("warning", "firing")]
    assert findings[0].numbers["pattern"] == "crash_loop"
    assert findings[0].numbers["unstable_share"] is None


def test_many_epochs_without_a_loop_are_no_storm() -> None:
    log = Log().add(b.c_member("a-1"), b.c_epoch(2))
    for epoch in range(3, 40):
        log.add(b.c_epoch(epoch))
    story = Story()
    story.log = log
    assert storms(story) == []


def test_a_migration_is_no_storm() -> None:
    log = Log().add(b.classic_group(1, b.member("a-1", {"t": [0]}), b.member("b-1", {"t": [1]})))
    log.add(b.no_classic_group(), b.c_member("a-1", classic_session_ms=10_000), b.c_member("b-1"), b.c_epoch(1))
    log.add(b.c_epoch(2))
    gone = [b.tombstone(8, "b-1"), b.tombstone(7, "b-1"), b.tombstone(5, "b-1"), b.tombstone(8, "a-1")]
    gone += [b.tombstone(7, "a-1"), b.tombstone(5, "a-1"), b.tombstone(6), b.tombstone(3)]
    log.add(*gone, b.classic_group(2, b.member("a-1", {"t": [0]})))
    log.add(b.classic_group(3, b.member("a-1", {"t": [0, 1]})))
    log.add(b.classic_group(4, b.member("a-1", {"t": [0, 1]})))
    story = Story()
    story.log = log
    assert storms(story, min_rebalances="2") == []


def habit(rejoins: int, days: int) -> Story:
    """A group that rebalances for nothing, some times each ten minutes; seldom enough to be no storm."""
    story = Story().change(["a", "b"])
    for _ in range(days * 144):
        for _ in range(rejoins):
            story.change()
        story.pass_by(600 - rejoins * 0.202)
    return story


def test_a_group_that_rebalances_often_as_a_rule_has_another_threshold() -> None:
    assert storms(habit(4, 1)) == []
    story = habit(4, 1)
    for _ in range(7):
        story.change()
    assert storms(story) == []
    for _ in range(6):
        story.change()
    (opened,) = storms(story)
    assert opened.numbers["normal_per_hour"] == 24.2
    assert "(24.2 an hour is normal here)" in opened.summary


def test_a_storm_does_not_become_normal() -> None:
    story = habit(1, 1)
    for _ in range(200):
        story.change().pass_by(30)
    found = storms(story)
    assert said(found) == [("warning", "firing"), ("critical", "firing")]
    # Two hours later the next one is as much of a storm, one that begins at once after it too.
    story.pass_by(7_200)
    for _ in range(7):
        story.change()
    again = storms(story)[-1]
    assert said([again]) == [("warning", "firing")]
    assert again.numbers["normal_per_hour"] < 7
    story.pass_by(200).change().pass_by(620)
    for _ in range(8):
        story.change()
    assert storms(story, close_after_s="0")[-1].numbers["normal_per_hour"] < 8


def test_half_an_hour_of_it_is_critical_and_so_is_a_group_that_hardly_works() -> None:
    assert said(storms(crash_loop(150))) == [("warning", "firing"), ("critical", "firing")]
    (opened,) = storms(crash_loop(3), window_s="60", critical_share="0.2")
    assert said([opened]) == [("critical", "firing")]


def test_a_member_that_nothing_is_known_of_goes_within_a_generation() -> None:
    story = Story().change(["a", "b"]).work(3)
    story.generation -= 1
    story.change(leave=["b"]).work(2)
    assert storms(story) == []


def test_what_is_normal_is_not_known_at_first() -> None:
    normal = BaselineRate(1_000)
    assert normal.per_ms(10_000, 0) is None
    normal.since_ms = 0
    assert normal.per_ms(99, 100) is None
    assert normal.per_ms(100, 100) == 0.0


def test_a_clause_without_clients() -> None:
    assert pattern_clause(StormPattern.CHURN, [], "", {}).startswith("members are replaced repeatedly: members")  # type: ignore[arg-type]


def test_findings_do_not_depend_on_how_the_records_come() -> None:
    story = crash_loop(4)
    whole = storms(story, until_s=2_000)
    diagnosis = PartitionDiagnosis(PartitionMirror(7), select_analyzers([STORM]).makes)
    out = [it for record in story.log.records for it in diagnosis.replay_batch(b.run_of([record]))]
    out += diagnosis.advance(story.log.now_ms + 2_000_000)
    assert [it for it in out if isinstance(it, Finding)] == whole
