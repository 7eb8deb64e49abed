"""Images of versions before: a change of what is kept is told in the table of migrations, or it fails here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from agent.core.shadow.classic import ClassicGroup
from agent.core.state_fields import StateFields
from agent.persistence.cluster_state import ClusterState
from agent.persistence.snapshot import codec, migrations
from agent.persistence.snapshot.codec import Forms, Packing, Unpacking, forms_of
from agent.persistence.snapshot.envelope import Header, read_header, seal
from agent.persistence.snapshot.errors import RefusalReason, SnapshotRefused
from agent.persistence.snapshot.image_codec import ImageCodec
from agent.persistence.snapshot.migrations import FORMAT, MIGRATIONS, OLDEST_FORMAT, Added
from tests.harness.state_digest import digest
from tests.unit.persistence.snapshot.cutting import ALL
from tests.unit.persistence.snapshot.making_images import DATA, LOG, PARTITION, replayed

VERSIONS = range(OLDEST_FORMAT, FORMAT + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_layout_of_a_version_is_as_it_was_released(version: int) -> None:
    expected = (DATA / f"format-{version}.layout").read_text()
    assert ImageCodec(ALL).layout(version) + "\n" == expected, (
        "what is kept of a class changed: raise FORMAT, say in MIGRATIONS what changed, and run"
        " python -m tests.unit.persistence.snapshot.making_images"
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_an_image_of_a_version_is_read(version: int) -> None:
    blob = (DATA / f"format-{version}.snapshot").read_bytes()
    assert read_header(blob)[0].format == version
    state = ClusterState(ALL, log=LOG)
    state.restore(PARTITION, blob)
    again = replayed()
    assert state.position(PARTITION) == again.position(PARTITION)
    assert [it.group for it in state.mirror.views()] == [it.group for it in again.mirror.views()]
    other = ClusterState(ALL, log=LOG)
    other.restore(PARTITION, state.capture(PARTITION).encode())
    assert digest(other, PARTITION) == digest(state, PARTITION)


def test_a_declaration_that_changed_without_a_version_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    before, blob = ImageCodec(ALL).layout(), replayed().capture(PARTITION).encode()
    forms_of.cache_clear()
    monkeypatch.setattr(ClassicGroup, "STATE", StateFields({**ClassicGroup.STATE, "newer": int}))
    try:
        assert ImageCodec(ALL).layout() != before
        with pytest.raises(SnapshotRefused, match="a snapshot of layout") as caught:
            ClusterState(ALL, log=LOG).restore(PARTITION, blob)
        assert caught.value.reason is RefusalReason.OTHER_LAYOUT
        # With a migration the version before has the layout that it had, and its images are read.
        monkeypatch.setattr(migrations, "FORMAT", FORMAT + 1)
        monkeypatch.setitem(MIGRATIONS, FORMAT + 1, [Added(ClassicGroup, "newer", int)])
        forms_of.cache_clear()
        assert ImageCodec(ALL).layout(FORMAT) == before
    finally:
        forms_of.cache_clear()


@pytest.mark.parametrize("version", [OLDEST_FORMAT - 1, FORMAT + 1])
def test_another_format_is_refused_in_one_line(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = (DATA / f"format-{FORMAT}.snapshot").read_bytes()
    header, _ = read_header(blob)
    monkeypatch.setattr("agent.persistence.snapshot.envelope.FORMAT", version)
    other = seal(Header(header.identity, header.fingerprints, 0, 0, 0), b"")
    monkeypatch.undo()
    with pytest.raises(SnapshotRefused) as caught:
        ClusterState(ALL, log=LOG).restore(PARTITION, other)
    assert caught.value.reason is RefusalReason.OTHER_FORMAT
    assert str(caught.value) == f"expected a snapshot of format {FORMAT}, got one of format {version}"


class Thing:
    """As it is now: two of its fields came later."""

    STATE: ClassVar = StateFields({"a": int, "fresh": dict[str, int], "named": str})
    __slots__ = ("a", "fresh", "named")


def test_added_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "FORMAT", 5)
    monkeypatch.setattr(codec, "FORMAT", 5)
    monkeypatch.setitem(MIGRATIONS, 4, [Added(Thing, "named", lambda: "x")])
    monkeypatch.setitem(MIGRATIONS, 5, [Added(Thing, "fresh", dict)])
    form = Forms(3).of(Thing)
    assert form.layout == "(a:int)"
    assert Forms(4).of(Thing).layout == "(a:int,named:str)"
    plain: Any = msgspec.msgpack.Decoder(form.plain).decode(msgspec.msgpack.encode((1,)))
    one, other = (form.unpack(plain, Unpacking([], {})) for _ in range(2))
    assert (one.a, one.fresh, one.named) == (1, {}, "x")
    assert one.fresh is not other.fresh
    assert Forms(5).of(Thing).pack(one, Packing()) == (1, {}, "x")


def test_data_is_there_for_each_version() -> None:
    assert {it.name for it in Path(DATA).iterdir()} == {
        f"format-{version}.{kind}" for version in VERSIONS for kind in ("layout", "snapshot")
    }
