"""Parquet files: event → file → event, for every event there is; where files are, and that they are whole."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.dataset
import pyarrow.parquet
import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.events.events import Event
from agent.core.events.samples import GroupLagTotal, GroupSample, sample_event
from agent.persistence.export import parquet_sink
from agent.persistence.export.columns import COLUMNS, row_to_event
from agent.persistence.export.encoded_event import EncodedEvent, encode_event
from agent.persistence.export.errors import ExportMisconfigured, SinkDown
from agent.persistence.export.filesystems import LocalFilesystem
from agent.persistence.export.log_clock import LogClock, decode_clock
from agent.persistence.export.parquet_sink import ParquetSink
from agent.runtime.offline import load
from analyzers.registry import select_analyzers
from tests.unit.persistence.export.made import CAPTURE, HOSTILE, SEGMENTS, event, plain
from tests.unit.persistence.export.test_encoded_event import ANY_TEXT, VALUES

NOW_MS = 1_795_000_000_000


def lines(events: Iterable[Event]) -> tuple[EncodedEvent, ...]:
    return tuple(encode_event(it, 0) for it in events)


def files(root: Path) -> list[str]:
    return sorted(str(it.relative_to(root)) for it in root.rglob("*") if it.is_file())


def read(root: Path) -> list[Event]:
    rows = pyarrow.dataset.dataset(root, partitioning="hive").to_table().to_pylist()
    return [row_to_event(row) for row in rows]


def by_id(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda it: (it["event_id"], json.dumps(it)))


def events_of(path: Path) -> list[Event]:
    chosen = select_analyzers()
    return plain(load([str(path)], cluster="c", on_problem=lambda text: None, chosen=chosen).events())


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_delta_table_is_refused(tmp_path: Path, scheme: str) -> None:
    """Nobody would read the files beside it, and VACUUM would remove them."""
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(ExportMisconfigured, match=r"expected a directory of Parquet, .* got a Delta table"):
        ParquetSink(f"{scheme}{tmp_path}")


@pytest.mark.parametrize("path", [SEGMENTS, CAPTURE])
def test_every_event_of_a_log_comes_back(path: Path, tmp_path: Path) -> None:
    if not path.is_dir():
        pytest.skip("the captures are not beside the checkout (../shared)")
    events = events_of(path)
    assert ParquetSink(str(tmp_path)).write(lines(events)) == []
    assert by_id(read(tmp_path)) == by_id(events)
    kinds = {it["type"] for it in events}
    assert "finding" in kinds
    table = pyarrow.dataset.dataset(tmp_path).to_table()
    assert table["extra"].null_count == len(events), "the table of columns has all there is"
    assert not any(table["escaped"].to_pylist())


def test_the_table_says_which_types_have_which_fields() -> None:
    has: dict[str, set[str]] = {}
    for it in events_of(SEGMENTS):
        has.setdefault(it["type"], set()).update(it)
    assert len(has) > 5
    for kind, fields in has.items():
        declared = {column.name for column in COLUMNS if column.types == ("*",) or kind in column.types}
        assert declared - OF_LOOKS == fields, kind


@pytest.mark.parametrize("name", HOSTILE)
def test_text_of_strangers(name: str, tmp_path: Path) -> None:
    member = {"member_id": name, "client_id": name, "client_host": name, "instance_id": None}
    events = [
        event(1, name),
        full(2, "member_joined", group=name, member=member),
        full(3, "finding", group=name, numbers={name: name}, summary=name),
        sample_event(
            GroupSample(NOW_MS, 7, 3, name, "classic", "Stable", 1, 1.0, None, GroupLagTotal(2, 1, 7, 0.25, True)),
            name,
        ),
        sample_event(GroupSample(NOW_MS + 1, 7, 3, name, "classic", "Empty", 0, None, 2.5, GroupLagTotal(2)), name),
        full(4, "rebalance", evidence=[{"kind": name}], left=[{**member, "cause": name, "confidence": 0.5}]),
    ]
    assert ParquetSink(str(tmp_path)).write(lines(events)) == []
    assert read(tmp_path) == events
    table = pyarrow.dataset.dataset(tmp_path).to_table()
    table.validate(full=True)  # its strings are UTF-8
    assert table["escaped"].to_pylist() == [not is_text(name)] * 6


def test_files_of_an_older_agent_lack_columns(tmp_path: Path) -> None:
    made = full(1, "assignment_changed", imbalance_ratio=1.5)
    assert ParquetSink(str(tmp_path)).write(lines([made])) == []
    (row,) = pyarrow.dataset.dataset(tmp_path).to_table().to_pylist()
    del row["imbalance_ratio"], row["lag_records"], made["imbalance_ratio"]
    assert row_to_event(row) == made


def is_text(name: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in name)


OF_LOOKS = {"sampled", "sampled_every_ms", "origins"}
"""Only events that were seen by looks have these."""


def full(number: int, kind: str, **more: Any) -> Event:
    """An event with all that its type has; null where nothing is given."""
    made = event(number, type=kind, **more)
    names = [column.name for column in COLUMNS if column.types == ("*",) or kind in column.types]
    names = [name for name in names if name not in OF_LOOKS]
    return {name: made.get(name, {} if name == "numbers" else [] if name == "evidence" else None) for name in names}


@pytest.mark.parametrize(
    ("more", "extra"),
    [
        ({"new_field": {"a": [1, "\udc80"]}}, {"new_field"}),
        ({"type": "of_the_future", "generation": 7, "topic": None}, {"topic"}),
        ({"generation": "seven"}, {"generation"}),
        ({"generation": 1 << 63}, {"generation"}),
        ({"generation": True}, {"generation"}),
        ({"partition": 1 << 31}, {"partition"}),
        ({"group": 5, "cluster": ["c"]}, {"group", "cluster"}),
        ({"type": "rebalance", "confidence": 1, "observed": 0}, {"confidence", "observed"}),
        ({"type": "rebalance", "joined": [{"member_id": "a"}], "causes": ["a", 1]}, {"joined", "causes"}),
        ({"type": "rebalance", "joined": [None], "evidence": None}, {"joined"}),
    ],
)
def test_what_no_column_has_is_kept_beside(more: dict[str, Any], extra: set[str], tmp_path: Path) -> None:
    made = full(1, more.get("type", "group_emptied")) | more
    sink = ParquetSink(str(tmp_path))
    line = encode_event(event(1), 0)
    assert sink.write([line._replace(body=json.dumps(made).encode())]) == []
    assert read(tmp_path) == [made]
    (row,) = pyarrow.dataset.dataset(tmp_path).to_table().to_pylist()
    assert json.loads(row["extra"]).keys() == extra


@settings(deadline=None)
@given(values=st.dictionaries(st.sampled_from([it.name for it in COLUMNS]) | ANY_TEXT, VALUES, max_size=8))
def test_any_values_come_back(values: dict[str, Any]) -> None:
    made = full(1, "rebalance") | values | {"type": "rebalance"}
    store = fsspec.filesystem("memory")
    store.store.clear()
    body = json.dumps(made).encode()
    assert ParquetSink("memory://h").write([encode_event(event(1), 0)._replace(body=body)]) == []
    ((name, _),) = store.store.items()
    (row,) = pyarrow.parquet.read_table(name, filesystem=store).to_pylist()
    assert row_to_event(row) == plain(made)


def test_a_line_that_is_no_event_is_refused_and_the_others_are_written(tmp_path: Path) -> None:
    batch = lines(event(number) for number in range(3))
    broken = [batch[0], batch[1]._replace(body=b"[]"), batch[2]]
    ((line, reason),) = ParquetSink(str(tmp_path)).write(broken)
    assert (line, reason) == (broken[1], "no event: TypeError")
    assert [it["offset"] for it in read(tmp_path)] == [0, 2]


def test_a_file_is_made_in_parts_and_has_all_rows_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As rows, all of a file at once would take ten times its JSON in memory. A part without any row is left out."""
    batch = [*lines(event(number) for number in range(7))]
    batch[2:4] = [it._replace(body=it.body.replace(b"{", b"[", 1)) for it in batch[2:4]]
    monkeypatch.setattr(parquet_sink, "ROW_GROUP_BYTES", 2 * max(len(it.body) for it in batch) + 1)
    refused = ParquetSink(str(tmp_path)).write(batch)
    assert [it.event for it in refused] == batch[2:4]
    assert [it["offset"] for it in read(tmp_path)] == [0, 1, 4, 5, 6]
    (name,) = files(tmp_path)
    made = pyarrow.parquet.ParquetFile(tmp_path / name).metadata
    assert [made.row_group(number).num_rows for number in range(made.num_row_groups)] == [2, 2, 1]


def test_files_are_by_date_and_the_same_batch_is_the_same_files(tmp_path: Path) -> None:
    day = 86_400_000
    at = 20_000 * day - 1
    events = [event(number, at_ms=at + number) for number in range(3)] + [event(3, at_ms=1 << 62), event(4, at_ms=-1)]
    sink = ParquetSink(str(tmp_path))
    assert sink.write(lines(events)) == []
    there = files(tmp_path)
    assert [it.rpartition("-")[0] for it in there] == [
        "date=1969-12-31/-1", f"date=1970-01-01/{1 << 62}", f"date=2024-10-03/{at}", f"date=2024-10-04/{at + 1}",
    ]  # fmt: skip
    assert by_id(read(tmp_path)) == by_id(events)
    sink.write(lines(events))
    assert files(tmp_path) == there, "written again, it replaces itself"
    sink.write(lines(events[:2]))
    assert len(files(tmp_path)) == 5, "and not what is not the same"


def test_what_a_killed_process_left_is_not_read_and_goes_after_an_hour(tmp_path: Path) -> None:
    sink = ParquetSink(str(tmp_path))
    sink.write(lines([event(1)]))
    for name, age_s in (("old.parquet", 4_000), ("old.json", 4_000), ("young.parquet", 3_000)):
        left = tmp_path / f".kshadow-1-{name}"
        left.write_bytes(b"half a file")
        os.utime(left, (time.time() - age_s,) * 2)
    assert read(tmp_path) == [event(1)]
    ParquetSink(str(tmp_path))
    assert [it for it in files(tmp_path) if it.startswith(".")] == [".kshadow-1-young.parquet"]


def test_a_place_that_takes_nothing_is_down_and_leaves_nothing(tmp_path: Path) -> None:
    root = tmp_path / "history"
    root.write_text("a file where a directory should be")
    sink = ParquetSink(f"file://{root}")
    with pytest.raises(SinkDown, match=r"writing date=2026-11-18/\d+-\w+.parquet to file:///.*: NotADirectoryError"):
        sink.write(lines([event(1)]))
    root.unlink()
    assert sink.write(lines([event(1)])) == []
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(SinkDown, match="File too large"):
            sink.write(lines([event(2)]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(files(root)) == 1
    assert read(root) == [event(1)]


class Other(LocalFileSystem):
    """A directory under another protocol, as SFTP's or HDFS's is one."""

    protocol = "other"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        """The oldest fsspec strips only the two names of its own class."""
        return str(super()._strip_protocol(path.removeprefix(f"{cls.protocol}://")))


def test_a_store_that_is_no_object_store_gets_files_moved(tmp_path: Path) -> None:
    fsspec.register_implementation("other", Other, clobber=True)
    sink = ParquetSink(f"other://{tmp_path}")
    events = [event(number, at_ms=number * 86_400_000) for number in range(3)]
    assert sink.write(lines(events)) == []
    assert [it.partition("/")[0] for it in files(tmp_path)] == [f"date=1970-01-0{day}" for day in (1, 2, 3)]
    assert by_id(read(tmp_path)) == by_id(events)


class Hdfs(Other):
    """Moves nothing over a file that is there."""

    protocol = "still"
    tells = True

    def mv(self, path1: str, path2: str, **kwargs: object) -> None:
        """As libhdfs and WebHDFS have it."""
        if not self.exists(path2):
            super().mv(path1, path2, **kwargs)
        elif self.tells:
            raise FileExistsError(path2)


@pytest.mark.parametrize("tells", [True, False])
def test_what_is_written_again_takes_the_place_of_what_was(
    tmp_path: Path, tells: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of two days, of which one could not be written; and the clock, each minute."""
    monkeypatch.setattr(Hdfs, "tells", tells)
    fsspec.register_implementation("still", Hdfs, clobber=True)
    sink = ParquetSink(f"still://{tmp_path}")
    for clock_ms in (1, 2):
        assert sink.write(lines([event(1)])) == []
        sink.tell_clock(LogClock("agent", "c", clock_ms))
    assert read(tmp_path) == [event(1)]
    (clock,) = (tmp_path / "_clock").iterdir()
    assert decode_clock(clock.read_bytes()).clock_ms == 2
    assert not list(tmp_path.glob(".kshadow-*"))


class Cut(Other):
    """The line to it is cut once a file was written."""

    protocol = "cut"
    is_cut = False

    def mv(self, path1: str, path2: str, **kwargs: object) -> None:
        self._ask()
        super().mv(path1, path2, **kwargs)

    def info(self, path: str, **kwargs: object) -> dict[str, object]:
        self._ask()
        return dict(super().info(path, **kwargs))

    def _ask(self) -> None:
        if self.is_cut:
            raise ConnectionResetError("the line is cut")


def test_what_was_written_and_could_not_be_moved_is_not_taken_for_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a file is there fsspec denies where it cannot ask: the events were gone, under a hidden name."""
    fsspec.register_implementation("cut", Cut, clobber=True)
    sink = ParquetSink(f"cut://{tmp_path}")
    monkeypatch.setattr(Cut, "is_cut", True)
    with pytest.raises(SinkDown, match="the line is cut"):
        sink.write(lines([event(1)]))
    assert read(tmp_path) == []
    monkeypatch.setattr(Cut, "is_cut", False)
    assert sink.write(lines([event(1)])) == []
    assert read(tmp_path) == [event(1)]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nosuch://x", "nosuch://x: expected a directory or a URL that fsspec knows: "),
        ("gs://bucket/x", "gs://bucket/x: fsspec needs another package for it: .*gcsfs"),
    ],
)
def test_a_url_that_cannot_be_is_told(url: str, said: str) -> None:
    with pytest.raises(ExportMisconfigured, match=said):
        ParquetSink(url)


@pytest.mark.usefixtures("process")
def test_without_the_extra_it_says_what_to_install() -> None:
    code = """
import sys
sys.modules["pyarrow"] = None
from agent.persistence.export.errors import ExportMisconfigured
from agent.persistence.export.parquet_sink import ParquetSink
try:
    ParquetSink("x")
except ExportMisconfigured as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "history to Parquet needs the package pyarrow: pip install 'kshadow[parquet]'\n"


def test_a_directory_that_cannot_be_written_to_is_told_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not with the first file, which comes after five minutes."""
    ParquetSink(str(tmp_path / "to" / "come"))
    assert caplog.text == ""
    (tmp_path / "file").touch()
    ParquetSink(str(tmp_path / "file" / "history"))
    assert f"{tmp_path}/file/history cannot be written to: Not a directory; events wait until it can" in caplog.text


def test_two_agents_may_write_the_same_at_one_time(tmp_path: Path) -> None:
    """In containers each has the same process number. What both saw is one file, and so is their clock."""
    names, content, partly = ["_clock/agent-a.json", "date=2026-11-21/1-a.parquet"], b"x" * 10_000, list[int]()
    for name in names:
        LocalFilesystem(tmp_path).put(name, content)

    def agent() -> None:
        place = LocalFilesystem(tmp_path)
        for number in range(200):
            place.put(names[number % 2], content)
            partly.extend(size for it in names if (size := (tmp_path / it).stat().st_size) != len(content))

    with ThreadPoolExecutor(2) as pool:
        for it in [pool.submit(agent), pool.submit(agent)]:
            it.result()
    assert (partly, files(tmp_path)) == ([], names)
