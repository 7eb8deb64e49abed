"""Who is behind a member id."""

from __future__ import annotations

from agent.core.wire.classic import MemberMetadata
from agent.simulation.whatif.clients import identify_clients
from tests.unit.core.shadow import build as b
from tests.unit.simulation.whatif.made import History, shared_out


def named(*generations: list[MemberMetadata]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    history = History()
    for at, members in enumerate(generations):
        history.at(at * 100_000, *members)
    found = identify_clients(history.recording())
    return found.by_member_id, found.replacements


def member(member_id: str, host: str = b.HOST, **more: object) -> MemberMetadata:
    return b.member(member_id, {"t": [0]}, host=host, **more)  # type: ignore[arg-type]


def test_a_client_that_comes_back_is_the_same() -> None:
    names, taken = named(shared_out(["a-1", "b-1"]), shared_out(["b-1"]), shared_out(["b-1", "a-2"]))
    assert names == {"a-1": "a", "b-1": "b", "a-2": "a"}
    assert taken == []


def test_several_alike_are_numbered_and_come_back_in_any_order() -> None:
    names, _ = named(shared_out(["a-1", "a-2", "a-3"]), shared_out(["a-2"]), shared_out(["a-2", "a-4", "a-5"]))
    assert [names[f"a-{it}"] for it in (1, 2, 3)] == ["a", f"a@{b.HOST[1:]}", f"a@{b.HOST[1:]}#2"]
    assert {names["a-4"], names["a-5"]} == {names["a-1"], names["a-3"]}


def test_a_static_member_is_its_static_id_whatever_it_is_called() -> None:
    names, taken = named(
        [member("a-1", instance_id="i"), member("z-1")],
        [member("z-1")],
        [member("z-1"), member("b-1", "/10.0.0.9", instance_id="i")],
        [member("z-1"), member("c-1", instance_id="j")],
    )
    assert (names["a-1"], names["b-1"], names["c-1"]) == ("i", "i", "j")
    assert taken == []


def test_a_static_member_replaced_in_place_is_the_same() -> None:
    history = History()
    history.at(0, member("a-1", instance_id="i"))
    history.at(5_000, member("a-2", instance_id="i"), same=True)
    assert identify_clients(history.recording()).by_member_id == {"a-1": "i", "a-2": "i"}


def test_a_newcomer_takes_the_place_of_who_left_for_good() -> None:
    names, taken = named(
        shared_out(["old-1", "other-1", "b-1"]),
        shared_out(["other-1", "b-1"]),
        shared_out(["b-1"]),
        shared_out(["b-1", "new-1"]),
    )
    assert names["new-1"] == "other"
    assert taken == [("new", "other")]


def test_a_place_of_the_same_client_id_is_preferred() -> None:
    names, _ = named(
        [member("a-1"), member("c-1"), member("b-1")],
        [member("c-1"), member("b-1")],
        [member("b-1")],
        [member("b-1"), member("a-2", "/10.0.0.2")],
    )
    assert names["a-2"] == "a"


def test_a_place_is_kept_for_who_comes_back() -> None:
    names, taken = named(
        shared_out(["a-1", "b-1"]), shared_out(["b-1"]), shared_out(["b-1", "new-1"]), shared_out(["b-1", "a-2"])
    )
    assert (names["a-2"], names["new-1"]) == ("a", "new")
    assert taken == []


def test_with_nobody_staying_the_successor_came_before_the_other_had_gone() -> None:
    names, _ = named([member("a-1")], [member("a-2", "/10.0.0.2")])
    assert names["a-1"] != names["a-2"]


def test_a_client_without_a_name() -> None:
    names, _ = named([member("-1")])
    assert names == {"-1": "-"}
