"""The source of `--source admin`, with answers that brokers give now and then.

On real brokers: `tests.live.runtime.test_admin_mode`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import count
from typing import Any

import pytest

from agent.common import clock, pacing
from agent.config.settings import AdminSettings, ClusterSettings, GroupSource, ReadSettings
from agent.core.shadow.sampled_mirror import shard_of
from agent.kafka.admin_api import asking, look_scheduler, sampled_reader
from agent.kafka.admin_api.answers import (
    AdminAnswer,
    AdminOutcome,
    DescribedGroup,
    FetchedOffset,
    FetchedOffsets,
    ListedGroup,
    Refusal,
)
from agent.kafka.admin_api.child import monotonic_ms
from agent.kafka.admin_api.sampled_reader import SampledReader
from agent.presentation.narrative.sampling import NOTHING_LISTED
from agent.runtime.parts import AgentOptions, build_parts
from agent.runtime.queries import AgentQueries
from agent.runtime.reader_loop import ReaderLoop
from agent.runtime.scrape import ScrapeReader
from analyzers.registry import select_analyzers
from tests.waiting import until

GROUP = "orders"
ANSWERS: dict[str, Any] = {
    "cluster": {"cluster_id": "a cluster", "brokers": 1, "sees_all_groups": True},
    "list": {"groups": {GROUP: ListedGroup("classic", "Stable")}},
    "describe": {"descriptions": {GROUP: DescribedGroup("classic", "Stable", "range", {})}},
    "offsets": {"offsets": {GROUP: FetchedOffsets((FetchedOffset("t", 0, 4, -1),))}},
}
ANSWERS["look"] = ANSWERS["describe"] | ANSWERS["offsets"]


class _Process:
    """Answers at once: for each question the next of its answers, the last of them from then on; None ends it."""

    exit_code: int | None = None
    waiting_since = None

    def __init__(self, script: Mapping[str, list[Any]], conf: object, wake: Callable[[], None]) -> None:
        self._script, self._wake, self._numbers = script, wake, count(1)
        self._answers: list[AdminAnswer] = []

    def ask(self, what: str, groups: Iterable[str] = (), topics: Mapping[str, Collection[str]] | None = None) -> int:
        number, now_ms = next(self._numbers), monotonic_ms()
        answers = self._script.get(what, [ANSWERS.get(what, {})])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer is None:
            self.exit_code = -6
        else:
            self._answers.append(AdminAnswer(number, now_ms, now_ms, **answer))
        self._wake()
        return number

    def take_answers(self) -> list[AdminAnswer]:
        taken, self._answers = self._answers, []
        return taken

    def excuse(self, now: float) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """Nothing to end."""


class _NothingKnown:
    def groups(self) -> dict[str, bool]:
        return {}

    def positions(self, group: str) -> dict[tuple[str, int], int]:
        return {}


def test_a_group_that_was_not_answered_at_first_keeps_it_from_being_ready_no_longer_than_it_must(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its members and its offsets are asked for one by one then."""
    failed = {GROUP: Refusal(AdminOutcome.FAILED, "COORDINATOR_LOAD_IN_PROGRESS")}
    script = {"look": [{"descriptions": failed, "offsets": failed}]}
    monkeypatch.setattr(asking, "AdminProcess", lambda *given: _Process(script, *given))
    reader = SampledReader({}, _NothingKnown(), requests_per_s=1000)
    reader.connect()
    seen = [reader.pending]
    for _ in range(100):
        reader.poll(0.05)
        seen.append(reader.pending)
        if reader.caught_up:
            break
    assert (seen[0], seen[-1]) == (1, 0)


def test_a_group_that_comes_later_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it was answered for, /readyz was 503, and no group had metrics."""
    failed, both = {"h": Refusal(AdminOutcome.FAILED, "COORDINATOR_LOAD_IN_PROGRESS")}, ANSWERS["list"]["groups"]
    later = {"groups": {**both, "h": ListedGroup("classic", "Stable")}}
    look = {"descriptions": failed, "offsets": failed}
    script = {"list": [ANSWERS["list"], later], "look": [ANSWERS["look"], look]}
    script |= {"describe": [{"descriptions": failed}], "offsets": [{"offsets": failed}]}
    monkeypatch.setattr(asking, "AdminProcess", lambda *given: _Process(script, *given))
    reader = SampledReader({}, _NothingKnown(), requests_per_s=1000)
    reader.connect()
    for _ in range(200):
        reader.poll(0.05)
        if reader.caught_up and reader.pending:
            break
    reader.poll(0.2)
    assert (reader.caught_up, reader.pending) == (True, 1)


def test_a_group_whose_coordinator_is_away_after_a_restart_does_not_hide_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No group had metrics until that broker was back."""

    class OneIsKnown(_NothingKnown):
        def groups(self) -> dict[str, bool]:
            return {"lost": True}

    silent = {"lost": Refusal(AdminOutcome.TIMED_OUT, "no coordinator")}
    look = {"descriptions": ANSWERS["describe"]["descriptions"] | silent}
    look |= {"offsets": ANSWERS["offsets"]["offsets"] | silent}
    monkeypatch.setattr(asking, "AdminProcess", lambda *given: _Process({"look": [look]}, *given))
    monkeypatch.setattr(sampled_reader, "STALE_S", 0.5)
    reader = SampledReader({}, OneIsKnown(), requests_per_s=1000)
    reader.connect()
    until(lambda: [reader.poll(0.05), reader.caught_up][-1], timeout_s=10)
    assert reader.unanswered == 1


def test_a_process_that_ends_as_it_asks_which_cluster_it_is_keeps_none_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where a broker has no lease for a moment; it was not asked again for a minute."""
    script = {"cluster": [None, ANSWERS["cluster"]]}
    monkeypatch.setattr(asking, "AdminProcess", lambda *given: _Process(script, *given))
    reader = SampledReader({}, _NothingKnown())
    reader.connect(30)
    assert reader.log_id is not None


def test_a_group_that_was_deleted_while_there_was_no_right_to_see_it_is_not_missed_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(look_scheduler, "LEAST_SUSPENDED_S", 0.1)
    denied = {GROUP: Refusal(AdminOutcome.DENIED, "no right")}
    none = DescribedGroup("classic", "Dead", "", {})
    dead = {"descriptions": {GROUP: none}, "offsets": {GROUP: FetchedOffsets(())}}
    script = {
        "list": [ANSWERS["list"], {"groups": {}}],
        "look": [ANSWERS["look"], {"descriptions": denied, "offsets": denied}, dead],
    }
    monkeypatch.setattr(asking, "AdminProcess", lambda *given: _Process(script, *given))
    reader = SampledReader({}, _NothingKnown(), requests_per_s=1000)
    reader.connect()
    withheld = []
    for _ in range(400):
        reader.poll(0.05)
        withheld.append(len(reader.withheld))
        if withheld[-2:] == [1, 0]:
            break
    assert withheld[-2:] == [1, 0]


def test_after_this_process_stood_still_groups_are_to_be_listed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before is old, and the brokers were not silent."""
    monkeypatch.setattr(asking, "AdminProcess", lambda *given: _Process({}, *given))
    reader = SampledReader({}, _NothingKnown(), requests_per_s=1000)
    reader.connect()
    monkeypatch.setattr(pacing, "STOOD_STILL_S", 0.3)
    reader.poll(0)
    assert reader.healthy
    time.sleep(0.4)
    reader.poll(0)
    assert str(reader.last_error) == "groups are not listed again yet: this process stood still for 0 s"
    monkeypatch.undo()
    for _ in range(100):
        reader.poll(0.05)
        if reader.healthy:
            break
    assert reader.healthy


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Agent]:
    with _Agent(monkeypatch) as agent:
        yield agent


class _Agent:
    """An agent whose brokers answer from `script`, on a machine whose clock is ahead by `ahead_ms`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead_ms = 0
        self.script: dict[str, list[Any]] = {}
        monkeypatch.setattr(asking, "AdminProcess", lambda *given: _Process(self.script, *given))
        monkeypatch.setattr(sampled_reader, "CLUSTER_S", 0.1)
        monkeypatch.setattr(clock, "now_ms", lambda: time.time_ns() // 1_000_000 + self.ahead_ms)
        settings = ClusterSettings(
            read=ReadSettings(source=GroupSource.ADMIN), admin=AdminSettings(requests_per_s=1000)
        )
        options = AgentOptions(
            conf={"bootstrap.servers": "127.0.0.1:1"},
            settings=settings,
            analyzers=select_analyzers(),
            wall_s=lambda: clock.now_ms() / 1000,
        )
        self.parts = build_parts(options)
        assert isinstance(self.parts.reader, SampledReader)
        self.reader = self.parts.reader
        self._loop = ReaderLoop(self.parts, lambda: None)
        self.queries = AgentQueries(self.parts, self._loop, ScrapeReader(self.parts, self._loop))

    def __enter__(self) -> _Agent:
        self.parts.reader.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.parts.reader.close()

    def reads(self, is_so: Callable[[], bool]) -> None:
        """Read until it is so."""
        until(lambda: self._loop._step(0.05) or is_so(), timeout_s=20)

    def next_offset(self, group: str) -> int:
        """How far the group's shard is."""
        return self.parts.state.mirror.partition(shard_of(group)).next_offset

    def groups(self) -> dict[str, int | None]:
        """The groups that it knows, each with the time of its shard."""
        state = self.parts.state
        return {
            group: state.diagnosis.clock_ms(number)
            for number, mirror in state.mirror.partitions.items()
            for group in mirror.groups
        }


def test_a_clock_that_was_ahead_for_a_while_does_not_hold_up_time_for_as_long(
    agent: _Agent, caplog: pytest.LogCaptureFixture
) -> None:
    """It stood still for a day, and what happened in that day seemed to have happened at once."""
    agent.reads(lambda: GROUP in agent.groups())
    agent.ahead_ms = 86_400_000
    agent.reads(lambda: (agent.groups().get(GROUP) or 0) > clock.now_ms() - 60_000)
    agent.ahead_ms, ahead = 0, agent.next_offset(GROUP)
    agent.reads(lambda: (agent.groups().get(GROUP) or clock.now_ms() + 60_000) <= clock.now_ms())
    assert sum("the clock of this machine went back by 1440 min" in it for it in caplog.messages) == 1
    assert agent.next_offset(GROUP) > ahead, "offsets ascend all the same"
    before_ms = agent.groups()[GROUP] or 0
    agent.reads(lambda: (agent.groups()[GROUP] or 0) > before_ms)


def test_a_clock_that_is_set_ahead_makes_nobody_silent(agent: _Agent, caplog: pytest.LogCaptureFixture) -> None:
    """A group that committed each second was a stalled consumer, since a partition of it seemed to rest for a day."""
    agent.reads(lambda: GROUP in agent.groups())
    offset = agent.next_offset(GROUP)
    agent.ahead_ms = 86_400_000
    agent.reads(lambda: any("the clock of this machine went ahead by 1440 min" in it for it in caplog.messages))
    assert GROUP not in agent.groups()
    agent.reads(lambda: (agent.groups().get(GROUP) or 0) > clock.now_ms() - 60_000)
    assert agent.next_offset(GROUP) > offset
    assert sum("went ahead" in it for it in caplog.messages) == 1


@pytest.mark.parametrize("ahead_ms", [-60_000, 60_000])
def test_a_clock_that_is_set_by_a_little_loses_nothing(
    ahead_ms: int, agent: _Agent, caplog: pytest.LogCaptureFixture
) -> None:
    agent.reads(lambda: GROUP in agent.groups())
    before_ms, offset = agent.groups()[GROUP], agent.next_offset(GROUP)
    agent.ahead_ms = ahead_ms
    agent.reads(lambda: agent.next_offset(GROUP) > offset)
    assert (agent.groups()[GROUP] or 0) >= (before_ms or 0)
    assert "clock of this machine" not in caplog.text


@pytest.mark.parametrize(
    ("listed", "sees_all", "says_so"),
    [({}, False, True), ({}, True, False), (ANSWERS["list"]["groups"], False, False)],
)
def test_that_no_group_is_listed_may_be_for_want_of_a_right(
    listed: dict[str, ListedGroup],
    sees_all: bool,
    says_so: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without any right it was ready, with no group, and not a word."""
    agent = _Agent(monkeypatch)
    agent.script |= {"list": [{"groups": listed}], "cluster": [ANSWERS["cluster"] | {"sees_all_groups": sees_all}]}
    with agent:
        agent.reads(lambda: agent.reader._sees_all is not None and agent.queries.ready().ready)
        assert (NOTHING_LISTED in agent.queries.ready().reason) is says_so
        agent.reads(lambda: not agent.reader._cluster.is_open)
    assert [it for it in caplog.messages if "no group is listed" in it] == [
        "no group is listed: there is none, or ACL operation Describe on the groups is missing"
    ] * says_so


def test_another_cluster_behind_the_same_address_begins_anew(agent: _Agent, caplog: pytest.LogCaptureFixture) -> None:
    """It was warned of each minute, and groups of both were told as one cluster's."""
    agent.reads(lambda: GROUP in agent.groups())
    assert agent.parts.reader.log_id == ("a cluster", "admin-api")
    described = {"descriptions": {"other": DescribedGroup("classic", "Stable", "range", {})}}
    offsets = {"offsets": {"other": FetchedOffsets((FetchedOffset("t", 0, 4, -1),))}}
    agent.script |= {
        "cluster": [ANSWERS["cluster"] | {"cluster_id": "another"}],
        "list": [{"groups": {"other": ListedGroup("classic", "Stable")}}],
        "describe": [described],
        "offsets": [offsets],
        "look": [described | offsets],
    }
    agent.reads(lambda: agent.groups().keys() == {"other"})
    assert agent.parts.reader.log_id == ("another", "admin-api")
    agent.reads(lambda: agent.parts.reader.caught_up)
    assert sum("another cluster answers: expected a cluster, got another" in it for it in caplog.messages) == 1
