"""A disk that is full: a small file system of its own, with the sink up and with the sink down."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset
import pytest

from agent.persistence.export.parquet_sink import ParquetSink
from agent.persistence.export.pipeline import ExportPipeline, SpoolSettings
from agent.persistence.export.sinks import BatchLimits
from tests.unit.persistence.export.made import event
from tests.unit.persistence.export.shelf import DOWN, Shelf
from tests.unit.persistence.export.test_pipeline import events, exports, reading
from tests.waiting import until

DISK_BYTES = 512 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a file system of its own takes root; test_spool has RLIMIT_FSIZE for everybody")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


def test_a_sink_that_is_up_goes_on(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    shelf, collecting = Shelf("shelf"), Shelf("collecting", BatchLimits(1_000, 1 << 20, 60))
    with exports(shelf, collecting, spool=disk, memory_bytes=8 << 20) as made:
        fill(disk)
        for first in range(0, 5_300, 100):
            made.put(events(first, 100))
        assert made.wait_durable(5), "what cannot be kept on disk is safe when the sinks have it"
        assert shelf.got == list(range(5_300))
        assert collecting.got == list(range(5_300)), "so it was asked not to wait for more"
        assert sum(reading(made, "collecting").dropped.values()) == 0
        assert made.health() is None
        assert "No space left on device" in (reading(made, "collecting").spool_error or "")
    assert caplog.text.count("history sink collecting: the spool takes nothing: ") == 1


def test_a_sink_that_is_down_fills_disk_and_memory_and_then_the_newest_are_dropped(
    disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    shelf = Shelf()
    shelf.down = DOWN
    total = 0
    with exports(shelf, spool=disk, memory_bytes=200_000) as made:
        until(lambda: made.put([event(0, at_ms=0)]) is None and not reading(made).healthy)
        shelf.down = None
        until(lambda: reading(made).healthy)
        shelf.batches.clear()
        shelf.down = DOWN
        while not reading(made).dropped["full"]:
            made.put(events(total, 50))
            total += 50
        now = reading(made)
        # Beside the events there is SQLite's log, which has them a second time until they are in the file.
        on_disk = sum(it.stat().st_size for it in disk.rglob("*") if it.is_file())
        assert on_disk > DISK_BYTES * 0.8
        assert now.spool_bytes > DISK_BYTES * 0.4
        assert "No space left on device" in (now.spool_error or "")
        assert not made.wait_durable(0.3)
        assert made.health() == "history sink shelf drops events, memory and spool are full: nobody answers"
        made.put(events(total, 1_000))
        total += 1_000
        shelf.down = None
        until(lambda: reading(made).buffered == 0, 30)
        made.put(events(total, 10))
        total += 10
        assert made.wait_durable(5)
        dropped = reading(made).dropped["full"]
        assert made.health() is None
    print(f"\ndisk full, sink down: put {total}, written {len(shelf.got)}, dropped {dropped}")
    missing = sorted(set(range(total)) - set(shelf.got))
    assert len(missing) == dropped > 1_000
    assert missing == list(range(missing[0], missing[0] + dropped)), "of one piece"
    assert shelf.got == sorted(shelf.got)
    assert f"history sink shelf: dropped {dropped:,} events" in caplog.text


def test_room_that_is_made_is_used_before_any_is_dropped(disk: Path) -> None:
    shelf = Shelf()
    shelf.down = DOWN
    with exports(shelf, spool=disk, memory_bytes=400_000) as made:
        filler = fill(disk)
        made.put(events(0, 300))
        assert not made.wait_durable(0.3)
        filler.unlink()
        time.sleep(1.1)
        assert made.wait_durable(5)
        assert reading(made).spool_error is None
        made.put(events(300, 300))
        assert sum(reading(made).dropped.values()) == 0
    again = Shelf()
    with exports(again, spool=disk):
        until(lambda: again.got == list(range(600)))


def test_parquet_files_on_a_full_disk_wait_in_the_spool(disk: Path, tmp_path: Path) -> None:
    filler = fill(disk)
    sink = ParquetSink(str(disk / "files"), roll_s=0.05)
    made = ExportPipeline([sink], spool=SpoolSettings(tmp_path, "c"))
    made.start()
    made.put([event(number) for number in range(100)])
    until(lambda: not made.readings()[0].healthy)
    assert "No space left on device" in (made.readings()[0].last_error or "")
    assert made.wait_durable(5)
    assert not list(disk.rglob("*.parquet"))
    filler.unlink()
    until(lambda: made.readings()[0].healthy)
    made.stop(10)
    table = pyarrow.dataset.dataset(disk / "files").to_table()
    assert sorted(table["offset"].to_pylist()) == list(range(100))
