"""`kshadow assign` of groups as they were: at a time, and when they last had members."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.core.read_limits import DepartureTracker
from tests.unit.cli.hostile import TEXTS, raw
from tests.unit.cli.running import FORMATS, kshadow, lines, ndjson, on_terminal
from tests.unit.cli.test_decode import line
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, Pair
from tests.unit.core.wire.vectors import CAPTURE
from tests.unit.serving.routes.replayed import Replayed, of_log, served

SEGMENTS = CAPTURE / "segments"
needs_capture = pytest.mark.skipif(not SEGMENTS.exists(), reason=f"{SEGMENTS} is missing: only beside a checkout")
DAY = "2026-11-21T"


def plan(group: str, path: object, *options: str) -> dict[str, Any]:
    result = kshadow("assign", group, "--from", path, "-o", "json", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    said: dict[str, Any] = json.loads(result.stdout)
    return said


def spread(outcome: dict[str, Any]) -> tuple[int, int, int]:
    return outcome["least"], outcome["largest"], outcome["idle"]


def file_of(directory: Path, *batches: tuple[Pair, ...], times_ms: list[int] | None = None) -> Path:
    """A log of batches, a second apart unless told."""
    rows, offset = [], 0
    for number, batch in enumerate(batches):
        at_ms = b.T0 + 1000 * number if times_ms is None else times_ms[number]
        for pair in batch:
            rows.append(line(*pair, partition=7, offset=offset, timestamp=at_ms))
            offset += 1
    return ndjson(directory / "log.ndjson", *rows)


# 1-8: by the capture's own timeline, `kshadow timeline GROUP`.
CAPTURED = [
    pytest.param("search-range", None, 2, 1795246169452, (0, 3, 2), id="1-range gave two of three members nothing"),
    pytest.param("search-range", "07:28:06", 1, 1795246086000, (3, 3, 0), id="2-one member had come"),
    pytest.param("stock-coop", None, 7, 1795246169418, (18, 18, 0), id="3-the others had left before"),
    pytest.param("stock-coop", "07:28:44", 4, 1795246124000, (0, 6, 1), id="4-between two cooperative rounds"),
    pytest.param("risk-848re", "07:29:20", 3, 1795246160000, (5, 5, 0), id="5-while it had both members"),
    pytest.param("audit-deploy", None, 9, 1795246169363, (3, 4, 0), id="6-all three left at once"),
    pytest.param("audit-deploy", "07:29:03", 8, 1795246143000, (5, 5, 0), id="7-in the middle of the deploy"),
    pytest.param("feeds-del", None, 1, 1795246089965, (6, 6, 0), id="8-deleted since"),
]


@needs_capture
@pytest.mark.parametrize(("group", "until", "generation", "as_of_ms", "expected"), CAPTURED)
def test_captured_groups(
    group: str, until: str | None, generation: int, as_of_ms: int, expected: tuple[int, int, int]
) -> None:
    said = plan(group, SEGMENTS, *(() if until is None else ("--until", DAY + until)))
    assert (said["generation"], said["as_of_ms"], spread(said["today"])) == (generation, as_of_ms, expected)
    assert plan(group, SEGMENTS, "--until", str(as_of_ms)) == said, "the same, asked for by its time"


@needs_capture
def test_a_group_that_has_members_is_told_of_as_it_is() -> None:
    said = plan("risk-848re", SEGMENTS)
    assert (said["generation"], said["as_of_ms"], len(said["today"]["assignment"])) == (4, None, 1)


@needs_capture
def test_what_other_assignors_would_have_given() -> None:
    said = plan("search-range", SEGMENTS)
    assert {it["assignor"]: (spread(it), it["moves"]) for it in said["alternatives"]} == {
        "range": ((0, 3, 2), 0),
        **dict.fromkeys(("roundrobin", "sticky", "cooperative-sticky"), ((1, 1, 0), 2)),
    }


@needs_capture
def test_the_table_says_when() -> None:
    result = kshadow("assign", "search-range", "--from", SEGMENTS)
    assert result.exit_code == 0
    assert result.stderr == "no members now; members it had until 2026-11-21 07:29:29.452Z, in generation 2\n"
    assert [" ".join(it.split()) for it in lines(result)][1:3] == [
        "then (range) 0-3 2 - - -",
        "range (as then) 0-3 2 0 3 1",
    ]
    asked = kshadow("assign", "search-range", "--from", SEGMENTS, "--until", f"{DAY}07:29")
    assert (asked.exit_code, asked.stdout) == (0, result.stdout)
    assert asked.stderr == "as of 2026-11-21 07:29:00.000Z, in generation 2\n"


@pytest.mark.usefixtures("process")
@needs_capture
def test_it_fits_a_terminal() -> None:
    text, code = on_terminal("assign", "search-range", "--from", SEGMENTS, columns=80)
    rows = text.splitlines()
    assert code == 0
    assert rows[0].startswith("no members now; ")
    assert max(map(len, rows)) <= 80
    assert "\nNote: partitions of " in text


def left(group: str = b.GROUP) -> list[tuple[Pair, ...]]:
    """Two members of a classic group, one later, none at last."""
    a, c = b.member("a", {"t": [0, 1]}), b.member("c", {})
    alone = b.member("a", {"t": [0, 1]})
    return [
        (b.new_group(group),),
        (b.classic_group(1, a, c, group=group),),
        (b.commit("t", 5, group=group),),
        (b.classic_group(2, alone, group=group),),
        (b.classic_group(3, group=group),),
        (b.commit("t", 6, group="another"),),
    ]


def test_a_duration_counts_from_the_newest_record(tmp_path: Path) -> None:
    path = file_of(tmp_path, *left())
    # The newest is of second 5: up to second 2 is before the second member left.
    said = plan(b.GROUP, path, "--until", "3s")
    assert (said["as_of_ms"], said["generation"], list(said["today"]["assignment"])) == (b.T0 + 2000, 1, ["a", "c"])
    assert said == plan(b.GROUP, path, "--until", str(b.T0 + 2000))
    assert said["partitions"] == {"t": 6}, "by the commit until then"
    assert plan(b.GROUP, path, "--until", "2100ms")["generation"] == 1
    assert plan(b.GROUP, path, "--until", "2s")["generation"] == 2, "a record of that time is applied"


def test_a_time_when_it_had_no_members_any_more(tmp_path: Path) -> None:
    path = file_of(tmp_path, *left())
    result = kshadow("assign", b.GROUP, "--from", path, "--until", "2099-01-01")
    assert result.exit_code == 0
    assert result.stderr == (
        "no members as of 2026-09-21 14:13:25.000Z; members it had until 2026-09-21 14:13:23.999Z, in generation 2\n"
    ), "nothing is known beyond the newest record"
    assert "then (range)" in result.stdout


def test_a_time_before_it_had_any(tmp_path: Path) -> None:
    path = file_of(tmp_path, *left())
    early = kshadow("assign", b.GROUP, "--from", path, "--until", str(b.T0))
    assert (early.exit_code, early.stdout) == (0, "")
    assert early.stderr == (
        "as of 2026-09-21 14:13:20.000Z, in generation 0\nthe group has no members to assign to\n"
    )
    none = kshadow("assign", b.GROUP, "--from", path, "--until", str(b.T0 - 1))
    assert (none.exit_code, none.stdout) == (1, "")
    assert f"no group '{b.GROUP}' in {path} as of 2026-09-21 14:13:19.999Z" in none.stderr


def test_an_empty_group_whose_members_were_compacted_away(tmp_path: Path) -> None:
    path = file_of(tmp_path, (b.classic_group(9),))
    result = kshadow("assign", b.GROUP, "--from", path)
    assert (result.exit_code, result.stderr) == (0, "the group has no members to assign to\n")


def test_a_partition_ends_at_its_first_later_record(tmp_path: Path) -> None:
    # A broker whose clock is behind took over: what it wrote follows what came later by the other's clock.
    a, c = b.member("a", {"t": [0]}), b.member("c", {"t": [0]})
    batches = [(b.classic_group(1, a),), (b.commit("t", 0),), (b.classic_group(2, c),)]
    path = file_of(tmp_path, *batches, times_ms=[b.T0, b.T0 + 9000, b.T0 + 1000])
    assert plan(b.GROUP, path, "--until", str(b.T0 + 5000))["generation"] == 1
    assert plan(b.GROUP, path, "--until", str(b.T0 + 9000))["generation"] == 2


def modern() -> list[tuple[Pair, ...]]:
    """A KIP-848 group whose two members leave one after the other, each with tombstones before the epoch."""

    def leaves(member_id: str, epoch: int) -> tuple[Pair, ...]:
        gone = (b.tombstone(key_type, member_id) for key_type in (8, 7, 5))
        return (*gone, b.c_epoch(epoch))

    return [
        (b.c_member("a"), b.c_member("c"), b.c_epoch(1), b.c_topics("t")),
        (b.c_target("a", {"t": [0, 1]}), b.c_target("c", {"t": [2]}), b.c_target_epoch(1)),
        (b.c_current("a", 1, {"t": [0, 1]}), b.c_current("c", 1, {"t": [2]})),
        leaves("a", 2),
        leaves("c", 3),
    ]


@pytest.mark.parametrize("step_ms", [1000, 0], ids=["apart", "all within one millisecond"])
def test_a_member_goes_with_its_whole_batch(tmp_path: Path, step_ms: int) -> None:
    path = file_of(tmp_path, *modern(), times_ms=[b.T0 + step_ms * number for number in range(5)])
    said = plan(b.GROUP, path)
    assert (said["generation"], said["today"]["assignment"]) == (2, {"c": [["t", 2]]})
    assert said["as_of_ms"] == b.T0 + 4 * step_ms - 1


def test_where_it_ends_may_lie_in_any_run() -> None:
    log = Log()
    for batch in modern():
        log.add(*batch)
    _, changes = log.replayed()
    leaving = DepartureTracker(b.GROUP)
    leaving.observe(changes)
    assert leaving.last is not None
    # The last batch: three tombstones and the epoch.
    begin = len(log.records) - 4
    for at in range(1, len(log.records)):
        first, rest = b.run_of(log.records[:at]), b.run_of(log.records[at:])
        assert leaving.last.records_before(first) == min(at, begin)
        assert leaving.last.records_before(rest) == max(begin - at, 0)
    elsewhere = b.run_of([record._replace(partition=8) for record in log.records])
    assert leaving.last.records_before(elsewhere) == len(elsewhere)


def test_a_log_without_times(tmp_path: Path) -> None:
    rows = [line(*pair, offset=offset) for offset, pair in enumerate(pair for batch in modern() for pair in batch)]
    path = ndjson(tmp_path / "log.ndjson", *rows)
    result = kshadow("assign", b.GROUP, "--from", path)
    assert (result.exit_code, result.stderr) == (
        0,
        "no members now; members it had until an unknown time, in generation 2\n",
    )
    asked = kshadow("assign", b.GROUP, "--from", path, "--until", "2026-11-21")
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert "expected records with times, got none" in asked.stderr


def test_standard_input_is_read_once(tmp_path: Path) -> None:
    text = file_of(tmp_path, *left()).read_text(encoding="ascii")
    until = str(b.T0 + 3999)
    result = kshadow("assign", b.GROUP, "--from", "-", stdin=text)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == (
        "the group has no members to assign to; it had some until 2026-09-21 14:13:23.999Z: "
        "ask with --until that time\n"
    )
    said = kshadow("assign", b.GROUP, "--from", "-", "--until", until, "-o", "json", stdin=text)
    assert (json.loads(said.stdout)["generation"], said.exit_code) == (2, 0)
    counted = kshadow("assign", b.GROUP, "--from", "-", "--until", "2s", stdin=text)
    assert counted.exit_code == 2
    assert "can be read only once" in " ".join(counted.stderr.split())


def test_what_is_wrong_with_the_data_is_said_once(tmp_path: Path) -> None:
    path = file_of(tmp_path, *left())
    path.write_text(path.read_text(encoding="ascii") + "{\n", encoding="ascii")
    result = kshadow("assign", b.GROUP, "--from", path)
    assert result.exit_code == 1
    assert result.stderr.count("line 7") == 1
    assert "then (range)" in result.stdout


def test_an_agent_knows_of_now_only() -> None:
    log = Log()
    for batch in left():
        log.add(*batch)
    with served(Replayed(of_log(log))) as url:
        result = kshadow("assign", b.GROUP, "--agent", url)
        refused = kshadow("assign", b.GROUP, "--agent", url, env={"KSHADOW_UNTIL": "2h"})
    assert (result.exit_code, result.stderr) == (0, "the group has no members to assign to\n")
    assert (refused.exit_code, refused.stdout) == (2, "")


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in TEXTS.items()])
def test_hostile_names(text: str, output: str, tmp_path: Path) -> None:
    member = b.member("m", {text: [0, 1]}, topics=[text], instance_id=text)
    batches = [(b.classic_group(1, member, group=text, protocol=text),), (b.classic_group(2, group=text),)]
    path = file_of(tmp_path, *batches)
    for options in ([], ["--until", str(b.T0)]):
        command = ["assign", "--from", str(path), "-o", output, "--members", *options, "--", text]
        result = kshadow(*command)
        assert result.exit_code == 0, result.stderr
        assert raw(result.stdout) == raw(result.stderr) == []
        # As of when; for programs that read lines also the note on partitions, which the others have.
        assert len(result.stderr.splitlines()) == {"table": 1, "ndjson": 2}.get(output, 0)
        match output:
            case "json":
                assert json.loads(result.stdout)["group"] == text
            case "yaml":
                assert yaml.safe_load(result.stdout)["today"]["assignment"] == {"m": [[text, 0], [text, 1]]}
    gone = kshadow("assign", "--from", path, "--until", str(b.T0 - 1), "--", text)
    assert (gone.exit_code, raw(gone.stderr)) == (1, [])
