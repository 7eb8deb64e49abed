"""The process that asks, where no broker answers, and its forms."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from agent.kafka.admin_api.answers import (
    AdminAnswer,
    AdminOutcome,
    DescribedGroup,
    FetchedOffset,
    ListedGroup,
    Refusal,
)
from agent.kafka.admin_api.asking import MUTE_S, SILENT_S, AdminProcess, AdminSession, parse_answer
from agent.kafka.admin_api.child import TIMEOUT_S, _ask_each, _is_answered, _positions
from tests.waiting import until

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


@contextmanager
def asking(conf: dict[str, str]) -> Iterator[tuple[AdminProcess, threading.Event]]:
    wake = threading.Event()
    asker = AdminProcess(conf, wake.set)
    try:
        yield asker, wake
    finally:
        began = time.monotonic()
        asker.close()
        assert time.monotonic() - began < TIMEOUT_S, "what waits for a broker waits for that long"


def answer(asker: AdminProcess, wake: threading.Event) -> AdminAnswer:
    deadline = time.monotonic() + 30
    while not (answers := asker.take_answers()):
        wake.wait(0.1)
        wake.clear()
        assert asker.exit_code is None
        assert time.monotonic() < deadline
    (only,) = answers
    return only


def test_a_position_that_is_not_answered_is_not_left_out_of_the_answer() -> None:
    """What is left out is told to be deleted. Of a `TopicPartition` only librdkafka can set the error."""
    at = [
        SimpleNamespace(topic="t", partition=0, offset=5, leader_epoch=None, error=None),
        SimpleNamespace(topic="t", partition=1, offset=-1001, leader_epoch=None, error=None),
    ]
    fetched: Future[Any] = Future()
    fetched.set_result(SimpleNamespace(topic_partitions=at))
    assert _positions(fetched).positions == (FetchedOffset("t", 0, 5, -1),)
    at[1].error = KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT)
    with pytest.raises(KafkaException, match="UNSTABLE_OFFSET_COMMIT"):
        _positions(fetched)


@pytest.mark.usefixtures("process")
def test_where_nobody_answers() -> None:
    with asking(NOBODY) as (asker, wake):
        before = time.monotonic_ns() // 1_000_000
        number = asker.ask("leaders")
        got = answer(asker, wake)
        assert (got.number, got.leaders, len(got.refusals)) == (number, {}, 1)
        assert before <= got.asked_ms <= got.answered_ms <= time.monotonic_ns() // 1_000_000
        assert got.refusals[0].outcome in (AdminOutcome.TIMED_OUT, AdminOutcome.FAILED)
        assert "Connection refused" in got.refusals[0].reason, "not only that time ran out"
        asker.ask("list")
        got = answer(asker, wake)
        assert (got.groups, len(got.refusals)) == ({}, 1)
        asker.ask("list_rebalancing")  # and is not waited for


@pytest.mark.usefixtures("process")
def test_an_agent_that_is_killed_as_it_starts_one() -> None:
    command = [sys.executable, "-m", "agent.kafka.admin_api.child"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.usefixtures("process")
def test_an_outage_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """However long it lasts, and however many processes are started meanwhile."""
    losses: list[None] = []
    session = AdminSession(NOBODY, lambda: None, lambda: losses.append(None))
    now = 1_000.0

    def lose() -> list[str]:
        nonlocal now
        caplog.clear()
        process = session.process(now)
        assert process is not None
        for _ in range(5):
            assert session.process(now) is process
            now += SILENT_S / 4
        now += 1
        assert session.process(now) is None
        while session.process(now) is None:
            now += 1
        return caplog.messages

    told = "the process that asks the Admin API has had no answer for 20 s; others are started until one is answered"
    assert [lose(), lose(), lose()] == [[told], [], []]
    with caplog.at_level("INFO", logger="kshadow"):
        session.answered(now)
        session.answered(now)
    assert [it.partition(", after ")[0] for it in caplog.messages] == ["the Admin API answers again"]
    assert lose() == [told]
    assert len(losses) == 4
    session.close()


@pytest.mark.usefixtures("process")
def test_where_this_process_stood_still_nobody_else_was_silent(caplog: pytest.LogCaptureFixture) -> None:
    """As after SIGSTOP and SIGCONT: what was asked before may be answered yet."""
    session = AdminSession(NOBODY, lambda: None, lambda: pytest.fail("it goes on with the same"))
    now = time.monotonic()
    process = session.process(now)
    assert process is not None
    process.ask("list")
    session.timed_out("g", now)
    try:
        for _ in range(2):
            now += MUTE_S + 15
            assert session.process(now) is process
        session.timed_out("g", now)
        assert session.process(now) is process
        assert caplog.messages == []
    finally:
        session.close()


@pytest.mark.usefixtures("process")
def test_a_process_that_cannot_be_started_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """It ended the observer for good."""
    session = AdminSession(NOBODY, lambda: None, lambda: None)
    most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        assert session.process(1_000.0) is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    (told,) = caplog.messages
    assert "cannot be started (Too many open files); others are started" in told
    assert session.process(2_000.0) is not None
    session.close()


@pytest.mark.usefixtures("process")
def test_a_process_that_hears_of_some_no_more_is_started_anew(caplog: pytest.LogCaptureFixture) -> None:
    """librdkafka may wait for a coordinator for ever, while it lists groups."""
    losses: list[None] = []
    session = AdminSession(NOBODY, lambda: None, lambda: losses.append(None))

    at = 0.0

    def pass_until(now: float) -> None:
        nonlocal at
        while at < now:
            at = min(at + 5, now)
            session.answered(at)  # a list of groups
            session.process(at)

    def timed_out(whom: str, now: float) -> None:
        pass_until(now)
        session.timed_out(whom, now)

    def goes_on(now: float) -> bool:
        pass_until(now)
        return session.process(now) is not None

    try:
        assert goes_on(0)
        timed_out("g", 0)
        timed_out("h", 0)
        timed_out("g", MUTE_S - 1)
        session.heard_of("g")
        timed_out("g", MUTE_S + 1)
        assert goes_on(MUTE_S + 1), "of g it has been heard"
        session.brokers_away()
        timed_out("h", 2 * MUTE_S)
        assert goes_on(2 * MUTE_S), "a broker was away: it is not the client"
        timed_out("h", 3 * MUTE_S)
        assert not goes_on(3 * MUTE_S)
        (told,) = caplog.messages
        assert told.startswith("the process that asks the Admin API has had no answer about some groups for 45 s; ")
        assert losses == [None]
        assert goes_on(4 * MUTE_S)
        timed_out("h", 4 * MUTE_S)
        assert goes_on(4 * MUTE_S)
        process = session.process(4 * MUTE_S)
        assert process is not None
        process.ask("list")
        assert not goes_on(time.monotonic() + MUTE_S), "an answer that does not come"
    finally:
        session.close()


@pytest.mark.usefixtures("process")
def test_names_that_cannot_be_asked_for() -> None:
    with asking(NOBODY) as (asker, wake):
        names = ["", "a\0b", "\ud800"]
        asker.ask("describe", names)
        described = answer(asker, wake).descriptions
        assert described == dict.fromkeys(
            names, Refusal(AdminOutcome.UNSUPPORTED, "not a name that can be asked for")
        )


@pytest.mark.usefixtures("process")
def test_properties_that_are_none(capfd: pytest.CaptureFixture[str]) -> None:
    with asking({**NOBODY, "no.such": "property"}) as (asker, wake):
        assert wake.wait(30)
        while asker.exit_code is None:
            time.sleep(0.01)
        assert asker.exit_code == 1
        asker.ask("leaders")
        assert asker.take_answers() == []
    assert "no.such" in capfd.readouterr().err


@pytest.mark.usefixtures("process")
def test_it_ends_with_its_input() -> None:
    with asking(NOBODY) as (asker, wake):
        asker.ask("leaders")
        answer(asker, wake)
        assert asker._process.stdin is not None
        asker._process.stdin.close()
        until(lambda: asker.exit_code is not None, TIMEOUT_S)
        assert asker.exit_code == 0


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"leaders": {"0": 1, "49": 3}}, AdminAnswer(7, 10, 12, leaders={0: 1, 49: 3})),  # 1
        (  # 2: a list of which a part is missing
            {"groups": {"g": ["classic", "Stable"]}, "refusals": [["failed", "why"]]},
            AdminAnswer(
                7,
                10,
                12,
                groups={"g": ListedGroup("classic", "Stable")},
                refusals=(Refusal(AdminOutcome.FAILED, "why"),),
            ),
        ),
        (  # 3: a description, and none
            {
                "described": {
                    "g": {
                        "group_type": "classic",
                        "state": "Stable",
                        "protocol": "range",
                        "members": {"m": {"t": [1, 0]}},
                    },
                    "h": ["denied", "no"],
                }
            },
            AdminAnswer(
                7,
                10,
                12,
                descriptions={
                    "g": DescribedGroup("classic", "Stable", "range", {"m": {"t": (1, 0)}}),
                    "h": Refusal(AdminOutcome.DENIED, "no"),
                },
            ),
        ),
    ],
)
def test_forms(line: dict[str, object], expected: AdminAnswer) -> None:
    assert parse_answer({"id": 7, "asked_ms": 10, "answered_ms": 12, **line}) == expected


@pytest.mark.usefixtures("process")
def test_a_login_without_a_token_is_a_refusal_and_no_trace(capfd: pytest.CaptureFixture[str]) -> None:
    """As when credentials are withdrawn while the agent runs: the process goes on, and tries with each question."""
    nowhere = {"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
            patch.delenv(name, raising=False)
        for name, value in {**nowhere, "AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "eu-west-3"}.items():
            patch.setenv(name, value)
        with asking({**NOBODY, "sasl.mechanism": "AWS_MSK_IAM"}) as (asker, wake):
            for _ in range(2):
                asker.ask("leaders")
                (refusal,) = answer(asker, wake).refusals
                assert "no credentials for MSK IAM" in refusal.reason
            assert asker.exit_code is None
    # Clients that other tests left may say there that their brokers are gone.
    assert "Traceback" not in capfd.readouterr().err


def test_what_a_connection_said_is_kept_while_nobody_answers() -> None:
    """So that of the next question it is not only told that time ran out."""
    silent, described = Refusal(AdminOutcome.TIMED_OUT, "why"), DescribedGroup("classic", "Empty", "", {})
    parts: list[tuple[dict[str, Any], bool]] = [
        ({"refusals": (silent,)}, False),
        ({"groups": {"g": ListedGroup("classic", "Empty")}, "refusals": (silent,)}, False),
        ({"descriptions": {"g": silent}, "offsets": {"g": silent}}, False),
        ({"descriptions": {"g": silent, "h": described}}, True),
        ({"groups": {}}, True),
    ]
    assert [_is_answered(AdminAnswer(7, 10, 12, **it)) for it, _ in parts] == [it for _, it in parts]


def test_an_answer_that_cannot_be_read_is_a_refusal_and_holds_up_no_other_group() -> None:
    futures = {group: Future[object]() for group in ("good", "bad")}
    told: list[dict[str, object]] = []
    _ask_each(list(futures), lambda _: futures, lambda it: it.result().decode(), told.append)
    futures["bad"].set_result(b"\xff")
    futures["good"].set_result(b"read")
    (answers,) = told
    assert answers["good"] == "read"
    assert isinstance(refusal := answers["bad"], Refusal)
    assert (refusal.outcome, "UnicodeDecodeError" in refusal.reason) == (AdminOutcome.UNSUPPORTED, True)
