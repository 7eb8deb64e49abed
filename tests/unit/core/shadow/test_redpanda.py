"""Redpanda's ways with the topic, by the order in which its public source writes records; no Redpanda wrote these.

`src/v/kafka/server/group.cc` and `group_manager.cc` of redpanda-data/redpanda (December 2024). A transaction's
offsets are hidden (`group_prepare_tx`, which no consumer is given: `replicated_partition::make_reader` asks for
raft_data alone) until `group::do_commit` writes them as plain commits. `group_manager::delete_offsets` writes
tombstones of offsets that expired, and behind them one of the group only where it is dead and had a generation;
`group::remove` always writes it.
"""

from __future__ import annotations

from agent.core.protocol.states import GroupState
from agent.core.wire.payloads import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_payload,
)
from tests.unit.core.redpanda import group_key, group_value, member, offset_key, offset_value, wrapped
from tests.unit.core.shadow.build import T0, Log

GROUP = "payments"
SUBSCRIPTION = encode_payload(ConsumerProtocolSubscription(("orders",)), 1)
ASSIGNMENT = encode_payload(ConsumerProtocolAssignment((TopicPartition("orders", (0, 1)),)), 1)
MEMBER = member("c-1", None, "c", "10.0.0.1", 300_000, 45_000, SUBSCRIPTION, ASSIGNMENT)


def stable() -> Log:
    log = Log()
    log.add((group_key(GROUP), group_value("consumer", 1, "range", "c-1", T0 + 900, MEMBER)))
    return log.add((offset_key(GROUP, "orders", 0), offset_value(5, 2, "", T0 + 1_000)))


def test_a_group_lives_as_kafkas_does() -> None:
    log = stable()
    view = log.view(GROUP)
    assert (view.state, view.generation, view.protocol) == (GroupState.STABLE, 1, "range")
    assert view.members[0].assignment == {"orders": (0, 1)}
    assert view.members[0].client_host == "10.0.0.1"
    log.add((group_key(GROUP), group_value("consumer", 2, None, None, log.now_ms)))
    assert log.view(GROUP).state is GroupState.EMPTY
    assert log.said() == [
        ["group_created", "rebalance", "member_joined", "assignment_changed"],
        [],
        ["rebalance", "member_left", "assignment_changed", "group_emptied"],
    ]


def test_what_a_transaction_commits_shows_as_a_plain_commit() -> None:
    log = stable().add((offset_key(GROUP, "orders", 0), offset_value(9, 2, "tx", T0 + 5_000)))
    (offset,) = log.mirror().committed(GROUP)
    assert (offset.offset, offset.metadata) == (9, "tx")


def test_an_offset_that_expires_counts_as_any() -> None:
    log = stable().add((offset_key(GROUP, "orders", 0), offset_value(7, -1, "", T0 + 2_000, expiry=T0 + 3_000)))
    assert [it.offset for it in log.mirror().committed(GROUP)] == [7]


def test_tombstones_whose_keys_are_wrapped_delete_what_plain_keys_made() -> None:
    log = stable().add((group_key(GROUP), group_value("consumer", 2, None, None, T0 + 3_000)))
    log.add((wrapped(offset_key(GROUP, "orders", 0)), None), (wrapped(group_key(GROUP)), None))
    mirror = log.mirror()
    assert mirror.view(GROUP) is None
    assert not mirror.offsets.count(GROUP)
    assert not mirror.error_counts
    assert log.said()[-2:] == [["offsets_deleted"], ["group_deleted"]]


def test_a_group_without_a_generation_goes_with_its_last_offset() -> None:
    log = Log().add((offset_key("tool", "orders", 0), offset_value(1, -1, "", T0)))
    log.add((offset_key("tool", "orders", 0), None))
    assert log.mirror().view("tool") is None
    assert log.said() == [["group_created"], ["offsets_deleted", "group_deleted"]]
