"""Session timeouts that brokers set: what their configuration says, and what it does to what is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.core.inference.cause_inference import infer_kip848_departure
from agent.core.inference.external_evidence import CombinedEvidence, KnownSessions
from agent.core.inference.facts import NO_COMMITS, CommitActivity, Departure
from agent.core.inference.sampled_inference import Between, SampledSilence, infer_sampled_departure
from agent.core.inference.session_settings import SessionSetting, agreed_settings, session_settings
from tests.unit.cli.running import kshadow
from tests.unit.core.inference.test_rebalance_posterior import END, A

MODERN = replace(A, session_timeout_ms=None, client_library="librdkafka", uses_classic_protocol=False)
SHARING = replace(MODERN, rebalance_timeout_ms=None)


def told(gap_ms: int, session: SessionSetting | None) -> Departure:
    """Of a member that committed each second, and each five seconds sent a heartbeat."""
    activity = CommitActivity(END - gap_ms, 1_000)
    return infer_kip848_departure(MODERN, activity, END, END - 600_000, session=session)


@pytest.mark.parametrize("timeout_ms", [10_000, 20_000, 45_000, 90_000])
def test_a_session_is_as_long_as_the_brokers_say(timeout_ms: int) -> None:
    session = SessionSetting(timeout_ms)
    right = told(timeout_ms, session)
    assert right.cause == "session_timeout"
    assert right.confidence >= 0.9
    assert right.session_timeout_ms == timeout_ms
    assert told(timeout_ms + 30_000, session).cause != "session_timeout"
    assert told(50, session).cause == "member_left"


def test_where_they_do_not_say_it_is_most_likely_the_default() -> None:
    assert told(45_000, None).cause == "session_timeout"
    assert told(45_000, None).confidence <= told(45_000, SessionSetting(45_000)).confidence
    assert told(45_000, None).session_timeout_ms is None


@pytest.mark.parametrize("gap_ms", [6_200, 20_000, 39_000])
def test_a_limit_that_is_assumed_alone_tells_nothing(gap_ms: int) -> None:
    """Of a member that never committed, as those of share groups: it closed, or died where sessions are shorter."""

    def departure(session: SessionSetting | None) -> Departure:
        return infer_kip848_departure(SHARING, NO_COMMITS, END, END - gap_ms, session=session)

    unknown = departure(None)
    assert (unknown.cause, unknown.evidence["candidates"]) == (
        "unknown_departure",
        ["member_left", "session_timeout"],
    )
    assert departure(SessionSetting(45_000)).cause == "member_left"


def test_the_brokers_setting_tells_nothing_of_a_member_of_the_classic_protocol() -> None:
    """It never committed, and went as its own session ended, which an online migration had begun anew."""
    gone = replace(A, session_timeout_ms=6_000)
    for session in (None, SessionSetting(45_000), SessionSetting(6_000)):
        departure = infer_kip848_departure(gone, NO_COMMITS, END, END - 5_995, session=session)
        assert departure.confidence < 0.8
        assert infer_kip848_departure(gone, NO_COMMITS, END, END - 2_000, session=session).cause == "member_left"


def test_no_goodbye_is_sure_where_a_session_that_is_not_known_may_have_run_out() -> None:
    """Of a member that committed once, as it came: a session of six seconds ended so, as Kafka 4.4.0 logged."""
    once = CommitActivity(END - 9_004, None)

    def departure(session: SessionSetting | None) -> Departure:
        return infer_kip848_departure(MODERN, once, END, END - 9_003, session=session)

    assert (departure(None).cause, departure(None).confidence) == ("member_left", 0.75)
    assert departure(SessionSetting(45_000)).confidence >= 0.8
    assert told(50, None).confidence >= 0.9


def test_a_member_that_was_there_for_less_than_any_session_left() -> None:
    assert infer_kip848_departure(SHARING, NO_COMMITS, END, END - 5_500).cause == "member_left"


def test_a_member_of_the_classic_protocol_has_its_own() -> None:
    """In a group of both."""
    departure = infer_kip848_departure(A, CommitActivity(END - 10_000, 1_000), END, session=SessionSetting(45_000))
    assert (departure.cause, departure.session_timeout_ms) == ("session_timeout", 10_000)


def test_looks_at_a_group_know_it_as_well() -> None:
    def cause(session: SessionSetting | None, silent_ms: int) -> str:
        gone, moved = Between(END - 500, END), Between(END - silent_ms - 500, END - silent_ms)
        silence = SampledSilence(moved, 60, 60_000, END, END - 200, 2)
        departure = infer_sampled_departure(MODERN, silence, gone, returned=False, kip848=True, session=session)
        return departure.cause

    assert cause(SessionSetting(20_000), 20_000) == "session_timeout"
    assert cause(SessionSetting(20_000), 45_000) != "session_timeout"
    assert cause(None, 45_000) == "session_timeout"


def test_what_a_configuration_says() -> None:
    said = {
        "group.consumer.session.timeout.ms": "10000",
        "group.consumer.heartbeat.interval.ms": "3000",
        "group.share.session.timeout.ms": "2000",
        "group.streams.session.timeout.ms": "soon",
        "session.timeout.ms": "1",
    }
    # A heartbeat interval that nobody told is not longer than the session.
    assert session_settings(said) == {
        "consumer": SessionSetting(10_000, 3_000),
        "share": SessionSetting(2_000, 2_000),
    }
    own = {"consumer.session.timeout.ms": "7000", "share.session.timeout.ms": None}
    assert session_settings(own, prefix="") == {"consumer": SessionSetting(7_000)}
    assert session_settings({"group.share.heartbeat.interval.ms": "1000"}) == {"share": SessionSetting(45_000, 1_000)}
    for wrong in ("0", "-1", "", "1e4", str(1 << 31)):
        assert session_settings({"group.share.session.timeout.ms": wrong}) == {}


def test_brokers_that_differ_say_nothing() -> None:
    one, two = SessionSetting(10_000), SessionSetting(20_000)
    assert agreed_settings([{"consumer": one, "share": two}, {"consumer": one, "share": one}]) == {"consumer": one}
    assert agreed_settings([{"consumer": one}, {}]) == {}
    assert agreed_settings([]) == {}


def test_a_groups_own_setting_is_before_the_brokers() -> None:
    known = KnownSessions({"consumer": SessionSetting(45_000)})
    known.of_groups = {("fast", "consumer"): SessionSetting(10_000)}
    several = CombinedEvidence([CombinedEvidence([]), known])
    assert several.group_session("fast", "consumer") == SessionSetting(10_000)
    assert several.group_session("slow", "consumer") == SessionSetting(45_000)
    assert several.group_session("fast", "share") is None


# At the prompt.

CRASHES = ("--mix", "kip848_crash=2", "--mix", "kip848_deploy", "--groups", 12, "--members", "2-8", "--seed", 11)


def departures(directory: Path, seconds: int, *options: object) -> dict[str, list[str]]:
    """By fate, how its members are said to have gone; what is a guess is not said."""
    events = kshadow("replay", directory / f"{seconds}s", *options)
    assert (events.exit_code, events.stderr) == (0, "")
    out: dict[str, list[str]] = {"crash": [], "deploy": []}
    for event in map(json.loads, events.stdout.splitlines()):
        if event["type"] == "rebalance":
            fate = "crash" if "crash" in event["group"] else "deploy"
            out[fate] += [it["cause"] if it["confidence"] >= 0.6 else "unknown_departure" for it in event["left"]]
    return out


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of clusters whose brokers have other session timeouts than the default."""
    directory = tmp_path_factory.mktemp("sessions")
    for seconds in (10, 25):
        made = kshadow("generate", *CRASHES, "--session-timeout", f"{seconds}s", "--out", directory / f"{seconds}s")
        assert made.exit_code == 0, made.stderr
    return directory


@pytest.mark.parametrize("seconds", [10, 25])
def test_replay_is_told_what_the_brokers_have(histories: Path, seconds: int) -> None:
    unaware = departures(histories, seconds)["crash"].count("session_timeout")
    option = f"group.consumer.session.timeout.ms={seconds}000"
    found = departures(histories, seconds, "--broker-config", option)
    assert len(found["crash"]) >= 8
    assert unaware < len(found["crash"]) / 2 < len(found["crash"]) - 1 <= found["crash"].count("session_timeout")
    assert set(found["crash"]) <= {"session_timeout", "unknown_departure"}
    assert set(found["deploy"]) == {"member_left"}
    shared = departures(histories, seconds, "--broker-config", option, "--workers", 2)
    assert shared == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("group.consumer.session.timeout.ms", "expected a broker's setting as BROKER.SETTING=MILLISECONDS"),
        ("session.timeout.ms=10000", "expected one of group.consumer.session.timeout.ms, "),
        ("group.share.session.timeout.ms=10s", "expected milliseconds, more than 0, got '10s'"),
        ("group.share.session.timeout.ms=0", "expected milliseconds, more than 0, got '0'"),
    ],
)
def test_what_is_no_setting_of_sessions(histories: Path, text: str, expected: str) -> None:
    result = kshadow("replay", histories / "10s", "--broker-config", text)
    assert result.exit_code == 2
    assert expected in " ".join(result.stderr.split())


def test_an_agent_has_its_own() -> None:
    result = kshadow(
        "explain", "g", "--agent", "http://localhost:1", "--broker-config", "group.share.session.timeout.ms=1000"
    )
    assert result.exit_code == 2
    assert "--broker-config goes with --from and --bootstrap-server; an agent has its own" in result.stderr
