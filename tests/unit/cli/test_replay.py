"""`kshadow replay`: the history in its order, the same each time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.unit.cli.running import SEGMENTS, kshadow, lines, on_terminal
from tests.unit.cli.test_decode import line
from tests.unit.core.shadow import build as b
from tests.unit.core.wire.vectors import CAPTURE, needs

PATHS = [
    pytest.param(SEGMENTS, id="own"),
    pytest.param(CAPTURE / "segments", id="shared", marks=needs(CAPTURE)),
]


@pytest.mark.parametrize("path", PATHS)
def test_the_same_bytes_twice_and_in_order(path: Path) -> None:
    first, second = (kshadow("replay", path) for _ in range(2))
    assert (first.exit_code, first.stderr) == (0, "")
    assert first.stdout_bytes == second.stdout_bytes
    events = [json.loads(it) for it in lines(first)]
    places = [(it["at_ms"], it["partition"], it["offset"]) for it in events]
    assert places == sorted(places)
    assert len({it["event_id"] for it in events}) == len(events) > 20


def test_the_order_of_paths_does_not_matter() -> None:
    parts = sorted(SEGMENTS.iterdir())
    assert (
        kshadow("replay", *parts).stdout
        == kshadow("replay", *parts[::-1]).stdout
        == kshadow("replay", SEGMENTS).stdout
    )


def test_logs_of_two_clusters_are_no_replicas(tmp_path: Path) -> None:
    """Offsets that the first had were passed over in the second: half of its history came out, without a word."""
    here, there = SEGMENTS, tmp_path / "other"
    shutil.copytree(SEGMENTS / "__consumer_offsets-14", there / "__consumer_offsets-13")
    for workers in ("1", "2"):
        result = kshadow("replay", here, there, "--workers", workers)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.endswith(
            f"Error: {there}: expected a replica of what {here} holds, got another record at offset 0 of partition"
            " 13: these are logs of different clusters, or of different topics of that name\n"
        )


def test_a_partition_that_several_paths_hold_is_read_once_and_in_order(tmp_path: Path) -> None:
    # As three brokers' directories have it: whole, and cut in two where a segment was rolled, the newer part first.
    (one,) = (SEGMENTS / "__consumer_offsets-13").glob("*.log")
    data = one.read_bytes()
    starts = [0]
    while starts[-1] < len(data):
        starts.append(starts[-1] + 12 + int.from_bytes(data[starts[-1] + 8 : starts[-1] + 12]))
    middle = starts[len(starts) // 2]
    parts = []
    for name, part in (("newer", data[middle:]), ("older", data[:middle])):
        folder = tmp_path / name / "__consumer_offsets-13"
        folder.mkdir(parents=True)
        (folder / f"{int.from_bytes(part[:8]):020}.log").write_bytes(part)
        parts.append(tmp_path / name)
    once = kshadow("replay", one)
    assert len(lines(once)) > 5
    for paths in ([one, one], [one, one.parent], parts, [*parts, one, one.parent]):
        for workers in ("1", "2"):
            again = kshadow("replay", *paths, "--workers", workers)
            assert (again.exit_code, again.stdout) == (0, once.stdout), paths


def test_options() -> None:
    events = [json.loads(it) for it in lines(kshadow("replay", SEGMENTS))]
    some = kshadow("replay", SEGMENTS, "--group", "ads-eos", "--group", "fraud-848", "--cluster", "east")
    expected = [{**it, "cluster": "east"} for it in events if it["group"] in ("ads-eos", "fraud-848")]
    assert [json.loads(it) for it in lines(some)] == expected
    near = kshadow("replay", SEGMENTS, "--group", "ads-eso", "--group", "fraud-848", "--cause", "session_timeout")
    assert (near.exit_code, near.stdout) == (0, "")
    assert near.stderr == "(no event is of a group 'ads-eso'; did you mean 'ads-eos'?)\n"
    none = kshadow("replay", SEGMENTS, "--group", "nobody", "-o", "table")
    assert (none.stdout, none.stderr) == ("", "no events\n(no event is of a group 'nobody')\n")


def test_the_table_tells_each_type_of_event() -> None:
    log = b.Log()
    log.add(b.new_group())
    log.add(b.classic_group(1, b.member("a-1", {"t": [0, 1]}, instance_id="i")))
    log.add(b.commit(), b.commit(partition=1))
    log.add(b.classic_group(1, b.member("a-2", {"t": [0, 1]}, instance_id="i")))
    log.add(b.classic_group(2))
    log.add(b.uncommit(), b.uncommit(partition=1), b.no_classic_group())
    texts = [line(it.key, it.value, partition=7, offset=it.offset, timestamp=it.timestamp_ms) for it in log.records]
    table = kshadow("replay", "-", "-o", "table", stdin="\n".join(texts))
    said = {row.split()[4]: " ".join(row.split()[5:]) for row in lines(table)[1:]}
    assert {name: said[name] for name in ("member_left", "static_member_replaced", "group_created")} == {
        "member_left": "a-2",
        "static_member_replaced": "a-2",
        "group_created": "",
    }
    assert said["rebalance"].startswith("generation 2, 0 members")
    assert "assigned" in said["assignment_changed"]
    assert said["offsets_deleted"] == "t-1 at 10"
    assert {"group_emptied", "group_deleted", "member_joined"} <= set(said)


def test_bad_data_is_said_and_the_rest_told() -> None:
    good = [line(key, value) for key, value in (b.new_group(), b.classic_group(1, b.member("a-1", {"t": [0]})))]
    result = kshadow("replay", "-", stdin="\n".join([good[0], "{", line(b"\x00\x63", b""), good[1]]))
    assert result.exit_code == 1
    assert [json.loads(it)["type"] for it in lines(result)] == [
        "group_created",
        "rebalance",
        "member_joined",
        "assignment_changed",
    ]
    bad_line, bad_record, advice = result.stderr.splitlines()
    assert bad_line.startswith("stdin: line 2: expected a JSON object")
    assert (
        bad_record
        == "partition 0, offset 2: unknown_key_type: key: key type 99; known are 0 to 8, 10 to 17 and 19 to 23"
    )
    assert "kshadow decode" in advice


def test_of_very_many_bad_records_some_are_shown_and_the_rest_counted() -> None:
    result = kshadow("replay", "-", stdin="\n".join([line(None, None)] * 250))
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-2] == "… and 150 more records that could not be decoded"


@pytest.mark.usefixtures("process")
def test_the_table_fits_a_terminal() -> None:
    text, code = on_terminal("replay", SEGMENTS, "-o", "table")
    assert code == 0
    assert max(len(row) for row in text.split("\n")[1:]) <= 80


@needs(CAPTURE)
def test_what_an_analyzer_finds_is_said_in_25_words() -> None:
    """What does not fit stands in the advice, and in what `explain` says."""
    found = [json.loads(line) for line in lines(kshadow("replay", CAPTURE / "segments", "--event", "finding"))]
    firing = [it for it in found if it["state"] == "firing"]
    assert len({it["analyzer"] for it in firing}) >= 6
    assert [it["summary"] for it in firing if len(it["summary"].split()) > 25] == []
