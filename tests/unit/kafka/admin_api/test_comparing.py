"""The mirror beside what a broker says: what differs, what of it counts, and what is said of it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

import pytest
from msgspec.structs import replace

from agent.core.protocol.hashing import GroupPartitioner, partition_for_group
from agent.core.shadow.views import GroupView
from agent.kafka.admin_api.answers import AdminOutcome, DescribedGroup, ListedGroup, Refusal
from agent.kafka.admin_api.comparing import MAX_TEXT_CHARS, MirrorComparison
from agent.kafka.admin_api.divergence import (
    CONFIRM_S,
    FIELDS,
    differences,
    is_describable,
)
from agent.kafka.admin_api.observer import AdminObserver
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log

CLASSIC = Log().add(b.classic_group(3, b.member("m-1", {"t": [0, 1]}), b.member("m-2", {"t": [2]})))
CONSUMER = Log().add(
    b.c_member("m-1"),
    b.c_epoch(2),
    b.c_target("m-1", {"t": [0, 1]}),
    b.c_target_epoch(2),
    b.c_current("m-1", 2, {"t": [0, 1]}),
)
AGREES = DescribedGroup("classic", "Stable", "range", {"m-1": {"t": (1, 0)}, "m-2": {"t": (2,)}})
AGREES_TOO = DescribedGroup("consumer", "Stable", "uniform", {"m-1": {"orders": (0, 1)}})


# 1-16: a difference, or none, and why.
@pytest.mark.parametrize(
    ("log", "answer", "fields"),
    [
        (CLASSIC, AGREES, []),  # 1: partitions in another order are the same
        (CLASSIC, replace(AGREES, state="Empty", members={}), ["members", "state"]),  # 2
        (CLASSIC, replace(AGREES, state="Dead", members={}), ["presence"]),  # 3: it has no such group
        (CLASSIC, replace(AGREES, group_type="consumer"), ["type"]),  # 4
        (CLASSIC, replace(AGREES, protocol="roundrobin"), ["protocol"]),  # 5
        (CLASSIC, replace(AGREES, members={"m-1": {"t": (0, 1)}}), ["members"]),  # 6
        (CLASSIC, replace(AGREES, members={"m-1": {"t": (0, 1)}, "m-2": {"u": (2,)}}), ["assignment"]),  # 7
        (CLASSIC, replace(AGREES, members={"m-1": {"t": (0,)}, "m-2": {"t": (2, 1)}}), ["assignment"]),  # 8
        (CLASSIC, replace(AGREES, members={**AGREES.members, "m-2": {"t": (2,), "u": ()}}), []),  # 9: of u nothing
        (CLASSIC, replace(AGREES, state="PreparingRebalance"), None),  # 10: between two records
        (CLASSIC, replace(AGREES, state="Unknown"), None),  # 11: Assigning, Reconciling: no names in librdkafka
        (CONSUMER, AGREES_TOO, []),  # 12: the topic goes by its id, the assignor by no name
        (CONSUMER, replace(AGREES_TOO, members={"m-1": {"orders": (0,)}}), ["assignment"]),  # 13: numbers must do
        (CONSUMER, replace(AGREES_TOO, members={"m-1": {"a": (0,), "b": (1,)}}), ["assignment"]),  # 14: two topics
        (Log().add(b.commit()), DescribedGroup("classic", "Empty", "", {}), []),  # 15: a group that only commits
        (Log().add(b.new_group()), DescribedGroup("classic", "Empty", "", {}), []),  # 16: one that was just made
    ],
)
def test_differences(log: Log, answer: DescribedGroup, fields: list[str] | None) -> None:
    found = differences(log.view(), answer)
    assert (None if found is None else sorted(found)) == fields
    assert set(found or ()) <= set(FIELDS)


def test_who_can_be_asked_for() -> None:
    connect = Log().add(b.classic_group(1, b.member("w-1"), protocol_type="connect"))
    registry = Log().add(b.classic_group(1, b.member("w-1"), protocol_type="sr"))
    share = Log().add(b.s_member("m-1"), b.s_epoch(1))
    streams = Log().add(b.k_member("m-1"), b.k_epoch(1))
    logs = (CLASSIC, CONSUMER, Log().add(b.commit()), Log().add(b.new_group()), connect, registry, share, streams)
    assert [is_describable(log.view()) for log in logs] == [True] * 4 + [False] * 4


class Groups:
    """Mirrored groups, as an agent has them."""

    def __init__(self, *logs: Log) -> None:
        self.mirrors = [log.mirror() for log in logs]
        self.lag = {log.partition: 0 for log in logs}
        self.hidden: set[str] = set()

    def group_partitions(self) -> Mapping[str, int]:
        return {group: it.partition for it in self.mirrors for group in it.groups if self.shows_group(group)}

    def view(self, group: str) -> GroupView | None:
        return next((it.view(group) for it in self.mirrors if group in it.groups), None)

    def shows_group(self, group: str) -> bool:
        return group not in self.hidden

    def read_partitions(self) -> Collection[int]:
        return self.lag

    def records_behind(self) -> Mapping[int, int]:
        return self.lag


WRONG = replace(AGREES, members={"m-1": {"t": (0, 1)}})


def comparer_of(groups: Groups) -> MirrorComparison:
    comparer = MirrorComparison(groups)
    comparer.refresh_groups(0.0)
    assert comparer.counts() == dict.fromkeys(FIELDS, 0)
    return comparer


def test_nothing_is_compared_while_it_is_not_known_how_far_the_topic_is_read() -> None:
    groups = Groups(CLASSIC)
    comparer = comparer_of(groups)
    assert comparer.is_at_work
    groups.lag = {}
    assert not comparer.is_at_work


def test_groups_that_nobody_answers_for_are_compared_no_more() -> None:
    """As where the right to describe them is taken away, or a coordinator falls silent: nor is it told that they
    agree."""
    groups = Groups(CLASSIC)
    observer = AdminObserver({"bootstrap.servers": "localhost:1"})
    comparer = comparer_of(groups)
    for outcome in (AdminOutcome.DENIED, AdminOutcome.TIMED_OUT):
        observer._take_descriptions(comparer, 1, {b.GROUP: AGREES}, 10.0)
        assert comparer.compared_groups == 1
        observer._take_descriptions(comparer, 1, {b.GROUP: Refusal(outcome, "why")}, 20.0)
        assert comparer.compared_groups == 0


def test_what_moved_in_the_topics_past_does_not_come_first() -> None:
    observer = AdminObserver({"bootstrap.servers": "localhost:1"})
    observer.groups_changed(["of-yesterday"])
    observer._comparison = comparer_of(Groups(CLASSIC))
    observer.groups_changed([b.GROUP])
    assert observer._moved == {b.GROUP}


def test_a_difference_counts_when_it_is_there_again_and_goes_with_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kshadow")
    comparer = comparer_of(Groups(CLASSIC))
    assert comparer.compared_groups == 0
    comparer.compare_description(b.GROUP, WRONG, 10.0)
    comparer.compare_description(b.GROUP, WRONG, 10.0 + CONFIRM_S - 0.1)
    assert comparer.counts()["members"] == 0
    for now in (10.0 + CONFIRM_S, 20.0, 30.0):
        comparer.compare_description(b.GROUP, WRONG, now)
        assert comparer.counts() == {**dict.fromkeys(FIELDS, 0), "members": 1}
    assert comparer.compared_groups == 1
    comparer.compare_description(b.GROUP, AGREES, 40.0)
    assert comparer.counts() == dict.fromkeys(FIELDS, 0)
    comparer.compare_description(b.GROUP, AGREES, 50.0)
    assert caplog.messages == [
        "group 'orders': mirror and broker differ: members: broker [], mirror ['m-2']",
        "group 'orders': mirror and broker no longer differ",
    ]


def test_a_difference_that_the_next_record_takes_away_does_not_count() -> None:
    log = Log().add(b.classic_group(3, b.member("m-1", {"t": [0, 1]}), b.member("m-2", {"t": [2]})))
    groups = Groups(log)
    comparer = comparer_of(groups)
    comparer.compare_description(b.GROUP, replace(AGREES, protocol="sticky"), 10.0)
    log.add(b.classic_group(4, b.member("m-1", {"t": [0, 1]}), b.member("m-2", {"t": [2]})))
    groups.mirrors = [log.mirror()]
    # Another view of the mirror's: what differs now is new.
    comparer.compare_description(b.GROUP, replace(AGREES, protocol="sticky"), 20.0)
    assert comparer.counts()["protocol"] == 0
    comparer.compare_description(b.GROUP, replace(AGREES, protocol="sticky"), 30.0)
    assert comparer.counts()["protocol"] == 1


def test_nothing_counts_while_records_are_on_their_way() -> None:
    groups = Groups(CLASSIC)
    comparer = comparer_of(groups)
    for now, lag in ((10.0, {7: 1}), (20.0, {7: 1}), (30.0, {}), (40.0, {7: 0})):
        groups.lag = lag
        comparer.compare_description(b.GROUP, WRONG, now)
    assert comparer.counts()["members"] == 0, "a transaction is open, or nothing is known, and then one answer"


def test_another_field_is_news_and_the_same_is_none(caplog: pytest.LogCaptureFixture) -> None:
    comparer = comparer_of(Groups(CLASSIC))
    for now in (10.0, 20.0):
        comparer.compare_description(b.GROUP, WRONG, now)
    worse = replace(WRONG, protocol="sticky")
    for now in (30.0, 40.0, 50.0):
        comparer.compare_description(b.GROUP, worse, now)
    assert [text.count(": broker") for text in caplog.messages] == [1, 2]
    assert comparer.counts() == {**dict.fromkeys(FIELDS, 0), "members": 1, "protocol": 1}


def test_a_group_that_only_the_mirror_has_until_it_is_gone_from_there_too() -> None:
    groups = Groups(CLASSIC)
    comparer = comparer_of(groups)
    for now in (10.0, 20.0):
        comparer.compare_description(b.GROUP, replace(AGREES, state="Dead", members={}), now)
    assert comparer.counts()["presence"] == 1
    groups.mirrors = []
    comparer.refresh_groups(21.0)
    assert (comparer.counts()["presence"], comparer.compared_groups) == (0, 0)
    comparer.compare_description(b.GROUP, AGREES, 22.0)
    assert comparer.compared_groups == 0, "an answer about a group that is gone"


def test_a_group_that_only_the_broker_lists(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kshadow")
    groups = Groups(CLASSIC)
    groups.lag = dict.fromkeys(range(50), 0)
    groups.lag[partition_for_group("behind", 50)] = 3
    assert groups.lag[partition_for_group("new", 50)] == 0
    groups.hidden = {"hidden"}
    comparer = comparer_of(groups)
    listed = {
        b.GROUP: ListedGroup("classic", "Stable"),
        "new": ListedGroup("classic", "Stable"),
        "gone-but-for-its-name": ListedGroup("classic", "Empty"),  # 4.x lists it until its next clean-up
        "first-round": ListedGroup("classic", "PreparingRebalance"),  # has no record yet
        "behind": ListedGroup("classic", "Stable"),
        "hidden": ListedGroup("classic", "Stable"),
    }
    assert comparer.compare_list(listed, 50, 10.0), "another list is wanted soon"
    comparer.refresh_groups(11.0)
    assert comparer.counts()["presence"] == 0
    assert not comparer.compare_list(listed, 50, 15.0)
    assert comparer.counts()["presence"] == 1
    comparer.refresh_groups(16.0)
    assert comparer.counts()["presence"] == 1
    del listed["new"]
    assert comparer.compare_list(listed, 50, 75.0)
    assert comparer.counts()["presence"] == 0
    assert [text.partition(":")[0] for text in caplog.messages] == ["group 'new'"] * 2


def test_a_group_that_the_broker_listed_first_and_the_mirror_has_later() -> None:
    groups = Groups()
    groups.lag = dict.fromkeys(range(50), 0)
    comparer = comparer_of(groups)
    listed = {b.GROUP: ListedGroup("classic", "Stable")}
    for now in (10.0, 15.0):
        comparer.compare_list(listed, 50, now)
    assert comparer.counts()["presence"] == 1
    groups.mirrors = [CLASSIC.mirror()]
    comparer.refresh_groups(16.0)
    comparer.compare_description(b.GROUP, AGREES, 17.0)
    assert comparer.counts()["presence"] == 0
    assert comparer.compare_list({}, 50, 20.0), "a list without it is nothing against the mirror: no right, perhaps"
    assert comparer.counts()["presence"] == 0


def test_whose_groups_are_ours() -> None:
    groups = Groups(CLASSIC)
    groups.hidden = {"hidden"}
    groups.lag = {partition_for_group("mine", 50): 3, partition_for_group("hidden", 50): 0}
    assert partition_for_group("theirs", 50) not in groups.lag
    names = dict.fromkeys(("mine", "hidden", "theirs"), ListedGroup("classic", "Stable"))
    told = MirrorComparison(groups, GroupPartitioner.KAFKA)
    assert list(told.in_mirror(names, 50)) == ["mine"]
    assert list(comparer_of(groups).in_mirror(names, 50)) == [], "it may be in a partition that is not read"
    groups.lag[partition_for_group("mine", 50, GroupPartitioner.REDPANDA)] = 0
    assert list(comparer_of(groups).in_mirror(names, 50)) == ["mine"]


def test_the_hash_is_learned_from_the_mirrors_groups() -> None:
    names = [f"group-{number}" for number in range(4)]
    logs = []
    for name in names:
        log = Log(partition_for_group(name, 50, GroupPartitioner.REDPANDA))
        logs.append(log.add(b.classic_group(1, b.member("m-1", {"t": [0]}), group=name)))
    groups = Groups(*logs)
    for number in range(50):
        groups.lag.setdefault(number, 0)
    del groups.lag[partition_for_group("new", 50)]
    comparer = comparer_of(groups)
    listed = dict.fromkeys([*names, "new"], ListedGroup("classic", "Stable"))
    for now in (10.0, 15.0):
        comparer.compare_list(listed, 50, now)
    assert comparer.counts()["presence"] == 1, "where Redpanda has it, all is read"


def test_who_is_asked_for() -> None:
    log = Log().add(b.commit(group="simple"), b.s_member("m-1", group="share"), b.s_epoch(1, group="share"))
    groups = Groups(CLASSIC, log)
    comparer = comparer_of(groups)
    assert comparer.next_groups(10, 10.0, ()) == {b.GROUP: 7, "simple": 7}
    comparer.scheduler.suspend("simple", 10.0)
    comparer.scheduler.prioritize(["simple", "share", b.GROUP], 20.0)
    assert comparer.next_groups(10, 30.0, ()) == {b.GROUP: 7}
    groups.mirrors = []
    assert comparer.next_groups(10, 60.0, ()) == {}, "it went a moment ago"


def test_strangers_words_are_shown_as_they_may_be(caplog: pytest.LogCaptureFixture) -> None:
    evil = "\x1b[2J\n" + "x" * 5000
    log = Log().add(b.classic_group(1, b.member("m-1", {"t": [0]}), group=evil))
    comparer = comparer_of(Groups(log))
    answer = DescribedGroup("classic", "Stable", evil, {evil: {"t": (0,)}})
    for now in (10.0, 20.0):
        comparer.compare_description(evil, answer, now)
    (text,) = caplog.messages
    assert text.isprintable()
    assert len(text) < MAX_TEXT_CHARS + 300
