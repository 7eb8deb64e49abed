"""A KIP-848 group's images as a broker writes them, and as the mirror reads them."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.core.records import RawRecord
from agent.core.wire import Record, Tombstone, WireError, decode
from agent.core.wire.consumer import ConsumerGroupMemberMetadataValue, TargetAssignmentMemberValue
from agent.core.wire.json_form import uuid_text
from agent.core.wire.primitives import Uuid
from agent.core.wire.records import encode_value
from agent.kafka.source.paths import raw_records
from agent.simulation.generator.kip848_images import metadata_hash
from agent.simulation.groups.kip848_messages import (
    ConsumerMemberMetadata,
    CurrentAssignment,
    CurrentAssignmentImage,
    EpochImage,
    Kip848Image,
    MemberMetadataImage,
    MemberState,
    TargetAssignmentImage,
    TargetEpochImage,
)
from agent.simulation.groups.protocol_models import Kip848Model
from agent.simulation.groups.script import (
    ClientSettings,
    Close,
    GroupProtocol,
    Kill,
    Resubscribe,
    Script,
    SetPartitions,
    Stall,
    Start,
    Step,
)
from agent.simulation.groups.simulation import Simulation
from tests import examples
from tests.unit.core.wire.vectors import CAPTURE, needs
from tests.unit.simulation.generator.made import encode_image, topic_id
from tests.unit.simulation.generator.mirroring import Form, mirrored
from tests.unit.simulation.groups.test_protocol_models import STEPS

S = 1_000
EXPRESSION = 16


# The capture.


def id_of(text: str) -> Uuid:
    """The id that Kafka prints like this: in place of names, which a log does not have."""
    return Uuid(base64.urlsafe_b64decode(text + "=="))


def image_of(entry: Record | Tombstone, at_ms: int) -> Kip848Image:
    """What the model would have written, of a broker's record."""
    group, member_id = entry.key.group_id, getattr(entry.key, "member_id", "")
    value: Any = entry.value if isinstance(entry, Record) else None
    match entry.type.key_type:
        case 3:
            return EpochImage(group, at_ms, value.epoch)
        case 5:
            return MemberMetadataImage(group, at_ms, member_id, value and about_of(value))
        case 6:
            return TargetEpochImage(group, value.assignment_timestamp, value.assignment_epoch)
        case 7:
            return TargetAssignmentImage(group, at_ms, member_id, value and frozenset(slots(value.topic_partitions)))
        case 8:
            return CurrentAssignmentImage(group, at_ms, member_id, value and current_of(value))
    raise AssertionError(entry.type)


def about_of(value: ConsumerGroupMemberMetadataValue) -> ConsumerMemberMetadata:
    return ConsumerMemberMetadata(
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        frozenset(value.subscribed_topic_names),
        value.rebalance_timeout_ms,
        value.server_assignor,
    )


def current_of(value: Any) -> CurrentAssignment:
    return CurrentAssignment(
        value.member_epoch,
        value.previous_member_epoch,
        MemberState(value.state),
        epochs(value.assigned_partitions),
        epochs(value.partitions_pending_revocation),
    )


def slots(topics: Any) -> Iterator[tuple[str, int]]:
    return ((uuid_text(topic.topic_id), number) for topic in topics for number in topic.partitions)


def epochs(topics: Any) -> dict[tuple[str, int], int]:
    since = (epoch for topic in topics for epoch in topic.assignment_epochs)
    return dict(zip(slots(topics), since, strict=True))


def without_what_images_lack(entry: Record) -> bytes:
    """A broker's value with our metadata hash, without the regular expression, and a target's topics in order."""
    value: Any = entry.value
    match entry.type.key_type:
        case 3:
            value = replace(value, metadata_hash=metadata_hash(entry.key.group_id))
        case 5:
            value = replace(value, subscribed_topic_regex="")
        case 7:
            in_order = sorted(value.topic_partitions, key=lambda topic: uuid_text(topic.topic_id))
            value = TargetAssignmentMemberValue(tuple(in_order))
    return encode_value(entry.type, value, entry.version)


@needs(CAPTURE)
@pytest.mark.parametrize(
    ("group", "records", "as_they_are"),
    [
        ("fraud-848", 41, {5: 6, 6: 4, 7: 10, 8: 15}),  # six epochs have their hash
        ("risk-848re", 21, {5: 1, 6: 2, 7: 2, 8: 9}),  # two members with an expression, two targets in another order
    ],
)
def test_the_captures_records_come_out_as_a_broker_wrote_them(
    group: str, records: int, as_they_are: dict[int, int]
) -> None:
    total, same = 0, Counter[int]()
    for raw in raw_records(str(CAPTURE / "segments")):
        if not isinstance(raw, RawRecord) or raw.control:
            continue
        entry = decode(raw.key, raw.value)
        if not isinstance(entry, Record | Tombstone) or not 3 <= entry.type.key_type < EXPRESSION:
            continue
        if entry.key.group_id != group:
            continue
        total += 1
        key, value = encode_image(image_of(entry, raw.timestamp_ms), id_of)
        assert key == raw.key
        assert value == (without_what_images_lack(entry) if isinstance(entry, Record) else None)
        same[entry.type.key_type] += value == raw.value
    assert total == records
    assert {key_type: count for key_type, count in same.items() if count} == as_they_are


# Values.


def test_a_target_is_written_in_order_and_an_assignment_as_it_came() -> None:
    one, other = topic_id("a"), topic_id("b")
    _, target = encode_image(TargetAssignmentImage("g", 1, "m", frozenset({("b", 1), ("a", 9), ("b", 0)})))
    entry = decode(encode_image(TargetAssignmentImage("g", 1, "m", None))[0], target)
    assert isinstance(entry, Record)
    assert [(it.topic_id, it.partitions) for it in entry.value.topic_partitions] == [
        (one, (9,)),
        (other, (0, 1)),
    ]
    current = CurrentAssignment(5, 4, MemberState.STABLE, {("b", 7): 4, ("a", 1): 4, ("b", 0): 5})
    entry = decode(*encode_image(CurrentAssignmentImage("g", 1, "m", current)))
    assert isinstance(entry, Record)
    assert [(it.topic_id, it.partitions, it.assignment_epochs) for it in entry.value.assigned_partitions] == [
        (other, (7, 0), (4, 5)),
        (one, (1,), (4,)),
    ]


@pytest.mark.parametrize("kind", [MemberMetadataImage, TargetAssignmentImage, CurrentAssignmentImage])
def test_what_is_gone_is_a_tombstone(kind: Any) -> None:
    entry = decode(*encode_image(kind("g", 1, "m", None)))
    assert isinstance(entry, Tombstone)
    assert (entry.key.group_id, entry.key.member_id) == ("g", "m")


def test_nothing_to_have_is_no_tombstone() -> None:
    for image in (
        TargetAssignmentImage("g", 1, "m", frozenset()),
        CurrentAssignmentImage("g", 1, "m", CurrentAssignment()),
    ):
        assert isinstance(decode(*encode_image(image)), Record)


def test_a_name_that_does_not_fit_is_told() -> None:
    with pytest.raises(WireError, match="at most 32767 can be written"):
        encode_image(EpochImage("x" * 32_768, 1, 2))


def test_the_hash_is_a_groups_own() -> None:
    assert len({metadata_hash(f"g{number}") for number in range(1_000)} - {0}) == 1_000


# The mirror.


def client(name: str, **more: Any) -> Start:
    chosen = ClientSettings(
        name,
        frozenset({"t"}),
        group_protocol=GroupProtocol.CONSUMER,
        max_poll_interval_ms=60 * S,
        rejoin_delay_ms=700,
    )
    return Start(0, name, replace(chosen, **more))


def members_of(world: Simulation) -> dict[str, Any]:
    """By member id, what the model has of it, in the mirror's form."""
    assert isinstance(world.model, Kip848Model)
    group = world.model.coordinator
    return {
        member_id: {
            "client_id": it.metadata.client_id,
            "client_host": it.metadata.client_host,
            "instance_id": it.metadata.instance_id,
            "rack_id": it.metadata.rack_id,
            "rebalance_timeout_ms": it.metadata.rebalance_timeout_ms,
            "subscription": sorted(it.metadata.topics),
            "subscription_regex": None,
            "member_epoch": it.current.epoch,
            "assignment": by_topic(it.held_slots),
            "target": by_topic(group.target.get(member_id, ())),
            "uses_classic_protocol": False,
        }
        for member_id, it in group.members.items()
    }


def by_topic(slots: Any) -> dict[str, list[int]]:
    out: dict[str, list[int]] = {}
    for topic, number in sorted(slots):
        out.setdefault(uuid_text(topic_id(topic)), []).append(number)
    return out


def same_group(world: Simulation, form: Form | None) -> None:
    """The mirror has what the model has."""
    assert form is not None
    assert isinstance(world.model, Kip848Model)
    group = world.model.coordinator
    assert (form["group_type"], form["generation"]) == ("consumer", group.epoch)
    assert form["target_generation"] in (group.target_epoch, None)
    assert form["state"] == str(group.state)
    expected = members_of(world)
    assert {
        it["member_id"]: {key: it[key] for key in expected[it["member_id"]]} for it in form["members"]
    } == expected
    assert form["anomalies"] == []


PLAY: tuple[Step, ...] = (
    client("a"),
    replace(client("b", rack="r1", remote_assignor="range"), at_ms=5),
    replace(client("s", instance_id="i1"), at_ms=20_000),
    Close(60_000, "s"),
    replace(client("s", instance_id="i1"), at_ms=70_000),
    Kill(100_000, "b"),
    replace(client("b"), at_ms=200_000),
    Resubscribe(250_000, "a", frozenset({"t", "u"})),
    SetPartitions(300_000, "t", 9),
    Stall(350_000, "a", 90_000),
    Close(500_000, "a"),
    Close(500_000, "b"),
    Close(510_000, "s"),
)


def test_the_mirror_has_what_the_model_has_at_every_moment() -> None:
    looks = Counter[str]()

    def look(world: Simulation, form: Form | None) -> None:
        same_group(world, form)
        assert form is not None
        looks[form["state"]] += 1

    world, loaded = mirrored(Script("fraud", {"t": 6, "u": 3}, PLAY, 600_000), look)
    assert looks.keys() == {"Assigning", "Reconciling", "Stable", "Empty"}
    assert isinstance(world.model, Kip848Model)
    assert world.model.coordinator.epoch > 10
    epochs = [it["generation"] for it in loaded.events() if it["type"] == "rebalance"]
    assert epochs == sorted(set(epochs))
    assert len(epochs) > 5


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=20))
def test_and_so_in_any_play(steps: list[Step]) -> None:
    started: set[str] = set()
    possible = []
    for step in sorted(steps, key=lambda it: it.at_ms):
        if isinstance(step, Start):
            started.add(step.client)
        if isinstance(step, SetPartitions) or step.client in started:
            possible.append(step)
    mirrored(Script("g", {"t": 6, "u": 3}, tuple(possible), 400 * S), same_group)
