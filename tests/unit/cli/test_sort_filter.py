"""Sorting, filtering and wide tables: the same names everywhere, for every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.cli.output import print_rows
from agent.cli.sort_filter import CAUSES, EVENTS, STATES, event_matches, matches_any, sort_rows
from agent.cli.tables import Column
from tests import SHARED
from tests.unit.cli.running import SEGMENTS, kshadow, lines, on_terminal
from tests.unit.serving.routes.replayed import Replayed, of_path, served

COLUMNS = {"name": Column("NAME"), "last": Column("LAST COMMIT"), "parts": Column("PARTITIONS")}
ROWS = [
    {"name": "b", "last_ms": 3, "parts": {"t": [0]}, "lag": None, "x": 2},
    {"name": "A", "last_ms": None, "parts": {}, "lag": 5, "x": "text"},
    {"name": "c", "last_ms": 1, "parts": {"t": [0], "u": [1]}, "lag": 40, "x": 10},
]


# 1-10: numbers as numbers, what is not known last either way, lists by how long they are.
@pytest.mark.parametrize(
    ("keys", "order"),
    [
        ([], "bAc"),  # 1
        (["name"], "Abc"),  # 2: letters, not their codes
        (["NAME:desc"], "cbA"),  # 3
        (["lag"], "Acb"),  # 4
        (["lag:desc"], "cAb"),  # 5
        (["last-commit"], "cbA"),  # 6: by its heading, and by the time itself
        (["last:asc"], "cbA"),  # 7
        (["partitions:desc"], "cbA"),  # 8
        (["x"], "bcA"),  # 9: numbers before texts
        (["parts", "name:desc"], "Abc"),  # 10: several
    ],
)
def test_order(keys: list[str], order: str) -> None:
    assert "".join(str(row["name"]) for row in sort_rows(ROWS, keys, COLUMNS)) == order


def test_patterns() -> None:
    assert matches_any("a", ())
    assert matches_any("pay-1", ("x", "pay-*"))
    assert matches_any("[a]", ("[a]",))
    assert not matches_any("PAY-1", ("pay-*",))


def test_events() -> None:
    rebalance = {"type": "rebalance", "cause": "a", "causes": ["a", "b"]}
    assert event_matches(rebalance, (), ("b",))
    assert event_matches(rebalance, ("rebalance",), ())
    assert not event_matches(rebalance, ("finding",), ("a",))
    assert not event_matches({"type": "group_created"}, (), ("a",))
    assert event_matches({"type": "member_left", "cause": "a"}, (), ("a",))


def test_the_names_are_those_of_the_contract() -> None:
    contract = SHARED / "contract.md"
    if not contract.exists():
        pytest.skip(f"{contract} is missing: only beside a developer's checkout")
    text = contract.read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in (*EVENTS, *CAUSES))
    assert all(name in text for name in STATES)


def rows(*arguments: object) -> list[Any]:
    result = kshadow(*arguments, "--from", SEGMENTS, "-o", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    found: list[Any] = json.loads(result.stdout)
    return found


def test_commands() -> None:
    assert [it["group"] for it in rows("groups", "--sort-by", "rebalances:desc", "--sort-by", "group")][:2] == [
        "ledger-share",
        "fraud-848",
    ]
    assert {it["group"] for it in rows("groups", "--state", "empty", "--type", "share", "--type", "streams")} == {
        "ledger-share",
        "quota-kstreams",
    }
    assert [it["group"] for it in rows("groups", "--match", "f*", "--match", "ads-eos")] == ["ads-eos", "fraud-848"]
    costs = [it.get("stopped_partition_ms") for it in rows("timeline", "pricing-poll", "--sort-by", "cost:desc")]
    assert costs[0] >= costs[1]
    assert costs[2:] == [None] * len(costs[2:])
    assert {it["type"] for it in rows("timeline", "pricing-poll", "--event", "rebalance")} == {"rebalance"}
    offsets = json.loads(
        kshadow("describe", "ads-eos", "--from", SEGMENTS, "--sort-by", "offset:desc", "-o", "json").stdout
    )
    assert [it["partition"] for it in offsets["offsets"]] == [5, 0, 1, 3, 2, 4]
    assert [it["severity"] for it in rows("findings", "--since", "0", "--severity", "info", "--match", "geo-*")] == [
        "info"
    ]
    assert rows("findings", "--since", "0", "--analyzer", "rebalance_storm") == []


def test_replay_has_the_same() -> None:
    result = kshadow("replay", SEGMENTS, "--match", "ads-*", "--event", "rebalance", "--sort-by", "generation:desc")
    assert {(it["group"], it["type"]) for it in map(json.loads, lines(result))} == {("ads-eos", "rebalance")}


def test_what_no_row_has_sorts_nothing() -> None:
    result = kshadow("groups", "--from", SEGMENTS, "--sort-by", "lag:desc", "-o", "json")
    assert (result.exit_code, result.stderr) == (0, "(--sort-by lag: no row has a value)\n")
    assert [it["group"] for it in json.loads(result.stdout)] == [it["group"] for it in rows("groups")]


def test_fields_that_are_not_there_now(tmp_path: Path) -> None:
    """Which ones there are does not go by the rows: a list that is empty today ended a script."""
    (tmp_path / "none.ndjson").touch()
    result = kshadow("groups", "--from", tmp_path / "none.ndjson", "--sort-by", "stale", "-o", "json")
    assert (result.exit_code, result.stdout) == (0, "[]\n")
    arguments = ("timeline", "pricing-poll", "--event", "group_created", "--sort-by", "confidence")
    result = kshadow(*arguments, "--from", SEGMENTS, "-o", "json")
    assert (result.exit_code, result.stderr) == (0, "(--sort-by confidence: no row has a value)\n")


@pytest.mark.parametrize("shape", ["event", "lag"])
def test_fields_of_the_schema(shape: str) -> None:
    command = {"event": ("replay", SEGMENTS), "lag": ("lag", "ads-eos", "--from", SEGMENTS)}[shape]
    fields = {field for row in map(json.loads, lines(kshadow(*command, "-o", "ndjson"))) for field in row}
    every = [word for field in sorted(fields) for word in ("--sort-by", field)]
    assert kshadow(*command, "-o", "ndjson", *every).exit_code == 0


def test_tables_sort_by_what_they_show() -> None:
    table = lines(
        kshadow("timeline", "pricing-poll", "--from", SEGMENTS, "--event", "rebalance", "--sort-by", "cost")
    )
    assert [row.rsplit("  ", 1)[1] for row in table[1:]] == ["0 ms", "18 ms"]
    same = ("timeline", "pricing-poll", "--from", SEGMENTS, "--event", "rebalance", "--sort-by")
    assert lines(kshadow(*same, "stopped_partition_ms")) == table
    members = lines(kshadow("members", "fraud-848", "--from", SEGMENTS, "--sort-by", "partitions:desc"))
    assert len(members) == 4


# 1-6: what there is not.
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["groups", "--sort-by", "generatoin"], "'generatoin' is not one of the columns: did you mean"),  # 1
        (["groups", "--sort-by", "zzz"], "'zzz' is not one of the columns group, group_type, state"),  # 2
        (["groups", "--state", "Sleeping"], "'Sleeping' is not one of"),  # 3
        (["timeline", "pricing-poll", "--sort-by", "hwat"], ": did you mean 'what'?"),  # 4
        (["findings", "--analyzer", "zz"], "no analyzer is called 'zz'; there are autoscaler_storm, "),  # 5
        (["findings", "--analyzer", "idle_members", "--analyzer", "all"], "no analyzer is called 'all'"),  # 6
    ],
)
def test_refusals(arguments: list[str], said: str) -> None:
    result = kshadow(*arguments, "--from", SEGMENTS)
    assert (result.exit_code, result.stdout, said in result.stderr) == (2, "", True), result.stderr


@pytest.mark.usefixtures("process")
def test_wide() -> None:
    narrow, _ = on_terminal("groups", "--from", SEGMENTS, columns=60)
    assert "-o wide shows all" in narrow
    wide, code = on_terminal("groups", "--from", SEGMENTS, "-o", "wide", columns=60)
    assert (code, "no room" in wide) == (0, False)
    heading = wide.splitlines()[0]
    assert all(name in heading for name in ("LAST COMMIT", "COORDINATOR", "STATE SINCE"))
    piped = lines(kshadow("groups", "--from", SEGMENTS))
    assert "COORDINATOR" not in piped[0]
    assert "LAST COMMIT" in piped[0]
    assert lines(kshadow("groups", "--from", SEGMENTS, "-o", "wide"))[1:] == wide.splitlines()[1:]
    assert kshadow("groups", "--from", SEGMENTS, env={"KSHADOW_OUTPUT": "wide"}).stdout.startswith("GROUP")


def test_units_are_for_tables(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers for people, to the right as numbers are; other formats have them as they are."""
    columns = {"n": Column("N", unit="count"), "t": Column("T", unit="ms"), "x": Column("X")}
    numbers = [
        {"n": 1234567, "t": 45_000, "x": 10_000},
        {"n": 9999, "t": -1, "x": None},
        {"n": None, "t": None, "x": 1},
    ]
    print_rows(numbers, "table", columns)
    assert capsys.readouterr().out.splitlines() == [
        "        N       T      X",
        "1,234,567  45.0 s  10000",
        "     9999      -1      -",
        "        -       -      1",
    ]
    print_rows(numbers[:1], "ndjson", columns)
    assert capsys.readouterr().out == '{"n":1234567,"t":45000,"x":10000}\n'


def test_an_analyzer_that_is_not_there() -> None:
    """Where this process looks for findings it knows all names; an agent may have analyzers of its own."""
    with served(Replayed(of_path(SEGMENTS))) as url:
        result = kshadow("findings", "--agent", url, "--analyzer", "idle_membres")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.endswith("(no analyzer is called 'idle_membres' here; did you mean 'idle_members'?)\n")
