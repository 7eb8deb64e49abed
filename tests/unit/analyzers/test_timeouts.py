"""Sessions that ran out, and members that did not poll."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent.core.causes import Cause
from agent.core.diagnosis.api import Finding
from agent.core.diagnosis.engine import PartitionDiagnosis
from agent.core.inference.external_evidence import (
    EvidenceSource,
    KnownSessions,
    RebalanceReport,
    ReportedDeparture,
)
from agent.core.inference.session_settings import SessionSetting
from agent.core.shadow.mirror import PartitionMirror
from analyzers.registry import select_analyzers
from tests.unit.analyzers.story import SESSION_S, Story, said
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, Pair
from tests.unit.core.shadow.scripts import CONSUMER, ModernScript

SESSION, POLL = "session_timeout", "poll_timeout"


def test_one_session_that_ran_out_opens_and_closes_after_the_window() -> None:
    story = Story().change(["a", "b"]).work(20).lose("b")
    (opened,) = story.findings(SESSION)
    assert said([opened]) == [("info", "firing")]
    assert opened.summary == "1 session timed out within 1 h: b on 10.0.0.1 after 10 s."
    assert opened.advice == (
        "Find why b stopped sending heartbeats, unless that was planned (log, exit code, OOM kills, liveness probe)."
    )
    assert opened.numbers["departures"] == 1
    assert opened.numbers["session_timeouts_ms"] == [10_000]
    assert said(story.findings(SESSION, until_s=3_599)) == [("info", "firing")]
    assert said(story.findings(SESSION, until_s=3_600)) == [("info", "firing"), ("info", "resolved")]


def test_a_goodbye_is_no_timeout() -> None:
    story = Story().change(["a", "b"]).work(20).change(leave=["b"]).work(5).change(leave=["a"])
    assert story.findings(SESSION) == story.findings(POLL) == []


def test_a_poll_timeout_is_no_session_timeout_nor_the_other_way_round() -> None:
    stalled = Story().change(["a", "b"]).work(20).stall("b")
    assert stalled.findings(SESSION) == []
    assert len(stalled.findings(POLL)) == 1
    dead = Story().change(["a", "b"]).work(20).lose("b")
    assert dead.findings(POLL) == []


def test_what_is_inferred_with_little_confidence_does_not_count() -> None:
    story = Story().change(["a", "b"]).work(20).lose("b")
    assert story.findings(SESSION, {"session_timeout.min_confidence": "0.99"}) == []


def test_a_client_that_does_it_again_is_a_warning() -> None:
    story = Story().change(["a", "b"]).work(20).lose("b").pass_by(4).change(["b"]).work(20).lose("b")
    opened, worse = story.findings(SESSION)
    assert said([opened, worse]) == [("info", "firing"), ("warning", "firing")]
    assert "repeatedly: b" in worse.summary
    assert "1 member joined again" in worse.summary
    assert worse.numbers["repeat_offenders"] == ["b"]
    assert worse.since_ms == opened.since_ms


def test_members_that_share_a_seat_are_no_repeat_offenders() -> None:
    # Two processes of one host with the same client id.
    story = Story().change(["a", "b@/h", "b@/h!"]).work(20).lose("b@/h", "b@/h!")
    (opened,) = story.findings(SESSION)
    assert opened.numbers["departures"] == 2
    assert opened.numbers["repeat_offenders"] == []


def test_many_members_are_a_warning_and_many_repeat_offenders_critical() -> None:
    fleet = ["b", "c", "d"]
    story = Story().change(["a", *fleet]).work(20).lose(*fleet)
    (opened,) = story.findings(SESSION)
    assert said([opened]) == [("warning", "firing")]
    assert opened.summary.startswith("3 sessions timed out within 1 h: b, c and d on 10.0.0.1 after 10 s")
    story.change(fleet).work(20).lose(*fleet)
    assert said(story.findings(SESSION))[-1] == ("critical", "firing")


def test_how_long_the_timeout_would_have_had_to_be() -> None:
    story = Story().change(["a", "b"]).work(20).lose("b").pass_by(4).change(["b"]).work(20).lose("a")
    # A finding tells its changes only: a third client makes it a warning.
    story.change(["c"]).work(20).lose("c")
    last = story.findings(SESSION)[-1]
    assert last.severity == "warning"
    # Silent from its last commit to its return: 10 s of the session, and 4.4 s after.
    assert last.numbers["needed_session_timeout_ms"] == SESSION_S * 1000 + 5_000
    assert "If b only paused (garbage collection, CPU limit, network) for 4.4 s" in last.advice
    assert "at least 15 s" in last.advice
    assert "Find why a and c stopped sending heartbeats" in last.advice


def test_who_comes_back_late_did_not_stall() -> None:
    story = Story().change(["a", "b"]).work(20).lose("b").pass_by(600).change(["b"]).work(20).lose("b")
    assert story.findings(SESSION)[-1].numbers["needed_session_timeout_ms"] is None


def test_a_new_process_while_the_old_session_stands_has_crashed() -> None:
    story = Story().change(["a", "b"]).work(20).lose("b", join=["b"])
    (opened,) = story.findings(SESSION)
    assert opened.numbers["overlapped"] == opened.numbers["came_back"] == 1
    assert "Find why b stopped without close()" in opened.advice
    assert opened.numbers["needed_session_timeout_ms"] is None


def test_only_who_crashes_again_is_kept_stopped() -> None:
    story = Story().change(["a", "b", "c"])
    for who in "cbb":
        story.work(20).lose(who, join=[who])
    last = story.findings(SESSION)[-1]
    assert "Find why b stops without close() (log, exit code, OOM kills, liveness probe), and keep it" in last.advice
    assert "Find why c stopped without close() (log, exit code, OOM kills, liveness probe)." in last.advice


def test_who_comes_takes_the_place_of_who_went_last() -> None:
    """One of two processes of a client id on a host is gone for good; a minute later the other one crashes, and is
    started again before its session has run out. It did not pause for a minute."""
    story = Story().change(["a", "b@/h", "b@/h!", "c"]).work(20).lose("b@/h!").work(60)
    story.lose("b@/h", join=["b@/h"]).work(20).lose("c")
    opened = story.findings(SESSION)[-1]
    assert said([opened]) == [("warning", "firing")]
    assert (opened.numbers["came_back"], opened.numbers["overlapped"]) == (1, 1)
    assert opened.numbers["needed_session_timeout_ms"] is None
    assert "only paused" not in opened.advice


def test_several_that_crash_again_are_told_as_several() -> None:
    story = Story().change(["a", "b", "c"])
    for who in "abcabc":
        story.work(20).lose(who, join=[who])
    last = story.findings(SESSION)[-1]
    assert "Find why a, b and c stop without close()" in last.advice
    assert "keep them stopped until then; the price is their capacity" in last.advice


def test_whose_sessions_ended_at_once_are_not_kept_stopped() -> None:
    """Brokers that did not answer: librdkafka then joins anew before its old session has ended."""
    story = Story().change(["a", "b", "c"])
    for _ in range(2):
        story.work(20).lose("a", "b", "c", join=["a", "b", "c"])
    last = story.findings(SESSION)[-1]
    assert last.numbers["repeat_offenders"] == ["a", "b", "c"]
    assert "Find what a, b and c had in common as their sessions timed out at once: brokers" in last.advice
    assert "stopped until then" not in last.advice


def test_static_members_that_all_went_may_have_been_stopped() -> None:
    fleet = ["a!1", "b!2", "c!3"]
    story = Story().change(fleet).work(20).lose(*fleet)
    (opened,) = story.findings(SESSION)
    assert said([opened]) == [("info", "firing")]
    assert opened.numbers["instance_ids"] == ["1", "2", "3"]
    assert "unless that was planned" in opened.advice
    assert "longer than a restart" in opened.advice


def test_static_members_that_closed_did_not_fall_silent() -> None:
    """In a KIP-848 group they say so, and their sessions end later."""
    script, fleet = ModernScript(CONSUMER, b.GROUP), ["a-1", "b-1", "c-1", "d-1"]
    log = Log()
    for name in fleet:
        log.add(*script.join(name, name.upper()))
    for name in fleet[1:]:
        log.add(*script.static_leave(name))
    log.now_ms += 42_000
    for name in fleet[1:]:
        log.add(*script.leave(name))
    diagnosis = PartitionDiagnosis(PartitionMirror(log.partition), select_analyzers([SESSION]).makes)
    findings = [it for it in diagnosis.replay_batch(b.run_of(log.records)) if isinstance(it, Finding)]
    assert said(findings) == [("info", "firing")], "three that were lost would be a warning"
    assert findings[0].advice.startswith(
        "B-1 closed: if that was a restart, find why it took longer than the session timeout. Static members need"
    )


def test_three_that_went_over_time_leave_the_window_one_by_one() -> None:
    story = Story().change(["a", "b", "c", "d"]).work(20).lose("b").work(1_000).lose("c").work(1_000).lose("d")
    assert said(story.findings(SESSION, until_s=4_000)) == [
        ("info", "firing"),
        ("warning", "firing"),
        ("info", "firing"),
        ("info", "resolved"),
    ]


def test_only_the_newest_thousand_are_kept() -> None:
    fleet = [f"c{number}" for number in range(1_001)]
    story = Story().change(["a", *fleet]).work(3).lose(*fleet)
    (opened,) = story.findings(SESSION, {"session_timeout.repeats": "2"})
    assert opened.numbers["departures"] == 1_000
    assert "and 997 more" in opened.summary


def test_names_of_strangers_are_clipped() -> None:
    story = Story().change(["a", "x" * 500]).work(20).lose("x" * 500)
    (opened,) = story.findings(SESSION)
    assert len(opened.summary) < 200
    assert [len(name) for name in opened.numbers["clients"]] == [64]


def test_members_of_the_new_protocol() -> None:
    """Their session timeout is the broker's, and not in the log."""
    log = Log().add(b.c_member("a-1"), b.c_member("b-1"), b.c_epoch(2), b.c_target_epoch(2))
    log.add(b.c_current("a-1", 2, {"t": [0]}), b.c_current("b-1", 2, {"t": [1]}))
    for _ in range(30):
        log.add(*(b.commit("t", number, at_ms=log.now_ms + 1000, id_of_topic=b.topic_id("t"), version=4)
                  for number in (0, 1)))  # fmt: skip
    for _ in range(45):
        log.add(b.commit("t", 0, at_ms=log.now_ms + 1000))
    log.add(b.tombstone(8, "b-1"), b.tombstone(7, "b-1"), b.tombstone(5, "b-1"), b.c_epoch(3))
    log.add(b.c_member("b-2"), b.c_epoch(4), after_ms=20_000)
    log.add(b.c_member("b-3"), b.c_epoch(5), after_ms=20_000)

    def as_it_closes(witness: EvidenceSource | None) -> Finding:
        """What is known of it by then is in it."""
        diagnosis = PartitionDiagnosis(PartitionMirror(7, witness), select_analyzers([SESSION]).makes)
        out = [it for it in diagnosis.replay_batch(b.run_of(log.records)) if isinstance(it, Finding)]
        assert said(out) == [("info", "firing")]
        (now,) = [it for it in diagnosis.advance(log.now_ms + 3 * 3_600_000) if isinstance(it, Finding)]
        assert said([now]) == [("info", "resolved")]
        assert now.numbers["came_back"] == 1
        return now

    now = as_it_closes(None)
    assert now.numbers["session_timeouts_ms"] == []
    assert now.summary == "1 session timed out within 1 h: b on 10.0.0.1; 1 member joined again."
    assert "too short for that" in now.advice
    assert "group.consumer.session.timeout.ms" in now.advice
    # Where the brokers were asked, there is a number to set.
    now = as_it_closes(KnownSessions({"consumer": SessionSetting(45_000)}))
    assert now.numbers["session_timeouts_ms"] == [45_000]
    assert now.numbers["needed_session_timeout_ms"] == 65_000
    assert "1 session timed out within 1 h: b on 10.0.0.1 after 45 s" in now.summary
    wanted = "set group.consumer.session.timeout.ms to at least 1.1 min (and group.consumer.max.session.timeout.ms "
    assert wanted in now.advice
    assert "Keep group.consumer.heartbeat.interval.ms at a third of it or less." in now.advice


class BrokerLog(EvidenceSource):
    """One that states that a member's session ran out."""

    def rebalance_report(self, group: str, generation: int, end_ms: int) -> RebalanceReport | None:
        timeout = Cause.SESSION_TIMEOUT
        departures = {"a-1": ReportedDeparture(timeout, end_ms)} if generation == 3 else {}
        return RebalanceReport("broker_log", cause=timeout, causes=(timeout,), departures=departures)


@pytest.mark.parametrize(
    ("kind", "member", "epoch"), [("share", b.s_member, b.s_epoch), ("streams", b.k_member, b.k_epoch)]
)
def test_whose_timeout_it_is(kind: str, member: Callable[[str], Pair], epoch: Callable[[int], Pair]) -> None:
    log = Log().add(member("a-1"), member("b-1"), epoch(2))
    log.add(b.tombstone(member("a-1")[0][1], "a-1"), epoch(3))
    diagnosis = PartitionDiagnosis(PartitionMirror(7, BrokerLog()), select_analyzers([SESSION]).makes)
    (found,) = [it for it in diagnosis.replay_batch(b.run_of(log.records)) if isinstance(it, Finding)]
    assert f" group.{kind}.session.timeout.ms, or for this group its config {kind}.session" in found.advice
    assert "consumer" not in found.advice


def test_a_poll_timeout_and_the_return_after_it() -> None:
    story = Story().change(["a", "b"]).work(20).stall("b").pass_by(12).change(["b"]).work(20).stall("b")
    (opened,) = story.findings(POLL)
    assert said([opened]) == [("warning", "firing")]
    assert opened.summary == ("1 member did not poll within max.poll.interval.ms (30 s) in 2 h: b on 10.0.0.1.")
    assert "above the slowest batch" in opened.advice
    # All there is of the second is in the finding as it stands, and as it closes.
    closed = story.findings(POLL, until_s=7_201)[-1]
    assert said([closed]) == [("warning", "resolved")]


def test_many_that_stall_again_and_again_are_critical() -> None:
    fleet = ["b", "c", "d"]
    story = Story().change(["a", *fleet]).work(20).stall(*fleet).pass_by(12).change(fleet).work(20).stall(*fleet)
    worse = story.findings(POLL)[-1]
    assert said([worse]) == [("critical", "firing")]
    assert worse.numbers["repeat_offenders"] == fleet
    assert worse.numbers["max_poll_intervals_ms"] == [30_000]
    assert worse.numbers["longest_beyond_ms"] == 12_404
    assert worse.numbers["needed_max_poll_interval_ms"] == 43_000
    assert "joined again up to 12 s later" in worse.summary
    assert "at least 43 s" in worse.advice


def test_more_than_are_kept_are_at_least_so_many() -> None:
    story = Story().change([f"c-{number}@/10.0.{number // 200}.{number % 200}" for number in range(1_200)]).work(20)
    story.lose(*list(story.members)[1:])
    assert [it.summary.split(":")[0] for it in story.findings(SESSION)] == [
        "At least 1,000 sessions timed out within 1 h"
    ]
