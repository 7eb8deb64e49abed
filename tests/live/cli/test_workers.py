"""Partitions that several processes share: what is printed is the same, to the byte."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from agent.kafka.source.unpacking import MAX_UNPACKED_BYTES
from agent.runtime import offline
from tests.unit.cli.running import SEGMENTS, kshadow
from tests.unit.core.wire.vectors import CAPTURE, needs
from tests.unit.kafka.source.test_unpacking import bomb

pytestmark = pytest.mark.usefixtures("process")

PATHS = [
    pytest.param(SEGMENTS, 3, id="own"),
    pytest.param(CAPTURE / "segments", 2, id="shared", marks=needs(CAPTURE)),
]


def answers(workers: int, *arguments: object) -> tuple[int, bytes, str]:
    """Exit code and both streams."""
    result = kshadow(*arguments, "--workers", workers)
    return result.exit_code, result.stdout_bytes, result.stderr


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of many groups, with one group's records in two partitions, and damage in two."""
    out = tmp_path_factory.mktemp("generated")
    made = kshadow("generate", "--groups", 60, "--records", 8_000, "--seed", 7, "--force", "--out", out)
    assert made.exit_code == 0, made.stderr
    first, second, third, *_ = sorted(out.glob("__consumer_offsets-*"))
    for directory, at in ((first, 2_000), (second, 900)):
        segment = next(directory.glob("*.log"))
        content = bytearray(segment.read_bytes())
        content[at] ^= 1
        segment.write_bytes(content)
    shutil.copytree(third, out / "__consumer_offsets-99")
    return out


@pytest.mark.parametrize(("path", "workers"), PATHS)
def test_the_history(path: Path, workers: int) -> None:
    alone = answers(1, "replay", path)
    assert alone[0] == 0
    assert alone[1].count(b"\n") > 20
    assert answers(workers, "replay", path) == alone


def test_damage_exit_code_and_findings_of_the_cluster(generated: Path) -> None:
    settings = {"open_after_s": 0, "times_mean": 1, "min_records_per_s": 0}
    tuned = [it for name, value in settings.items() for it in ("--tune", f"coordinator_hotspot.{name}={value}")]
    alone = answers(1, "replay", generated, *tuned)
    assert (alone[0], alone[2].count("CRC-32C")) == (1, 2)
    assert any(json.loads(line)["group"] is None for line in alone[1].splitlines())
    assert answers(2, "replay", generated, *tuned) == alone


def test_the_groups_and_one_of_them(generated: Path) -> None:
    alone = answers(1, "groups", "--from", generated, "-o", "ndjson")
    assert answers(3, "groups", "--from", generated, "-o", "ndjson") == alone
    rows = [json.loads(line) for line in alone[1].splitlines()]
    assert len({row["group"] for row in rows}) == len(rows)
    copied = int(sorted(generated.glob("__consumer_offsets-*"))[2].name.rpartition("-")[2])
    twice = next(row["group"] for row in rows if row["coordinator_partition"] == copied)
    once = next(row["group"] for row in rows if row["coordinator_partition"] != copied)
    for command in (["explain", once], ["explain", twice], ["describe", once, "-o", "json"], ["describe", "nobody"]):
        assert answers(2, *command, "--from", generated) == answers(1, *command, "--from", generated)


def test_up_to_a_time(generated: Path) -> None:
    rows = [json.loads(line) for line in answers(1, "replay", generated)[1].splitlines()]
    until = ["--until", rows[len(rows) // 2]["at_ms"], "-o", "json"]
    group = next(row["group"] for row in rows if row["group"])
    asked = ["timeline", group, "--from", generated, *until]
    assert answers(2, *asked) == answers(1, *asked)


def test_a_batch_that_is_too_large(tmp_path: Path) -> None:
    for number, megabytes in ((1, (MAX_UNPACKED_BYTES >> 20) + 1), (2, 1)):
        directory = tmp_path / f"__consumer_offsets-{number}"
        directory.mkdir()
        (directory / f"{0:020}.log").write_bytes(bomb(0, megabytes=megabytes))
    alone = answers(1, "describe", "nobody", "--from", tmp_path)
    assert alone[0] == 3
    assert answers(2, "describe", "nobody", "--from", tmp_path) == alone


def die(*_: object) -> None:
    """In place of reading a partition."""
    os._exit(7)


def test_a_process_that_dies_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer from what is left would look whole."""
    monkeypatch.setattr(offline, "_read_partition", die)
    code, printed, said = answers(2, "groups", "--from", SEGMENTS)
    assert (code, printed) == (3, b"")
    assert "ended with 7; --workers 1 reads in this process alone" in said


def test_it_goes_with_files() -> None:
    result = kshadow("groups", "--agent", "http://localhost:1", "--workers", 2)
    assert (result.exit_code, "--workers goes with --from" in result.stderr) == (2, True)
