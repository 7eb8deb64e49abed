"""A directory of snapshots: whole or not at all, one agent's at a time."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.persistence.snapshot.directory_store import LOCK, DirectoryStore
from agent.persistence.snapshot.store import StoreError, StoreErrorReason
from tests import ROOT


def test_what_is_saved_is_there_again(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "deep" / "snapshots")
    store.save("partition-7", b"one")
    store.save("partition-7", b"two")
    store.save("cluster", b"")
    store.close()
    again = DirectoryStore(tmp_path / "deep" / "snapshots")
    assert again.load(["partition-7", "partition-8", "cluster"]) == {"partition-7": b"two", "cluster": b""}
    again.delete("partition-7")
    again.delete("partition-7")
    assert again.load(["partition-7"]) == {}
    again.close()


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "snapshots")
    store.save("cluster", b"secret")
    files = {it.name: it.stat().st_mode & 0o777 for it in (tmp_path / "snapshots").iterdir()}
    assert files == {LOCK: 0o600, "cluster.snapshot": 0o600}
    assert (tmp_path / "snapshots").stat().st_mode & 0o777 == 0o700
    store.close()


def test_two_agents_need_two_directories(tmp_path: Path) -> None:
    first = DirectoryStore(tmp_path)
    with pytest.raises(StoreError, match=f"in use by process {os.getpid()}: each agent needs one") as told:
        DirectoryStore(tmp_path)
    assert told.value.reason is StoreErrorReason.IN_USE
    first.close()
    DirectoryStore(tmp_path).close()


def test_a_full_disk_keeps_nobody_from_what_is_there(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    store.save("cluster", b"kept")
    store.close()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        again = DirectoryStore(tmp_path)
        assert again.load(["cluster"]) == {"cluster": b"kept"}
        with pytest.raises(StoreError) as told:
            again.save("cluster", b"more")
        assert told.value.reason is StoreErrorReason.FULL
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert again.load(["cluster"]) == {"cluster": b"kept"}
    again.close()


def test_what_a_crash_left_goes(tmp_path: Path) -> None:
    (tmp_path / "partition-1.tmp").write_bytes(b"half")
    (tmp_path / "partition-1.snapshot").write_bytes(b"whole")
    store = DirectoryStore(tmp_path)
    assert store.load(["partition-1"]) == {"partition-1": b"whole"}
    assert not (tmp_path / "partition-1.tmp").exists()
    store.close()


def test_what_a_disk_did_not_let_go_of_is_written_over(tmp_path: Path) -> None:
    """From a disk that fails as a file is written that may not go either, and is there when the disk works again."""
    store = DirectoryStore(tmp_path)
    (tmp_path / "partition-1.tmp").write_bytes(b"half of one that is longer")
    store.save("partition-1", b"whole")
    assert store.load(["partition-1"]) == {"partition-1": b"whole"}
    assert {it.name for it in tmp_path.iterdir()} == {LOCK, "partition-1.snapshot"}
    store.close()


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a\n", "ä", "a" * 201])
def test_a_name_is_a_name(tmp_path: Path, name: str) -> None:
    store = DirectoryStore(tmp_path)
    for ask in (lambda: store.load([name]), lambda: store.save(name, b""), lambda: store.delete(name)):
        with pytest.raises(ValueError, match="a name of letters"):
            ask()
    store.close()


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"of somebody else")
    store = DirectoryStore(tmp_path / "snapshots")
    (tmp_path / "snapshots" / "cluster.snapshot").symlink_to(tmp_path / "elsewhere")
    told = store.load(["cluster"])["cluster"]
    assert isinstance(told, StoreError)
    assert told.reason is StoreErrorReason.DENIED
    store.save("cluster", b"mine")
    assert (tmp_path / "elsewhere").read_bytes() == b"of somebody else"
    store.close()


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError) as told:
        DirectoryStore(tmp_path / "file")
    assert told.value.reason is StoreErrorReason.MISCONFIGURED


FULL = """
import resource, sys
from agent.persistence.snapshot.directory_store import DirectoryStore
from agent.persistence.snapshot.store import StoreError
store = DirectoryStore(sys.argv[1])
store.save("partition-1", b"old" * 100)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    store.save("partition-1", bytes(1_000_000))
except StoreError as error:
    print(error.reason, store.load(["partition-1"])["partition-1"] == b"old" * 100)
store.save("partition-2", b"small")
"""


@pytest.mark.usefixtures("process")
def test_where_there_is_no_room_the_old_one_stays(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "full True\n"
    assert {it.name for it in tmp_path.iterdir()} == {LOCK, "partition-1.snapshot", "partition-2.snapshot"}


SAVING = """
import sys
from agent.persistence.snapshot.directory_store import DirectoryStore
store, number = DirectoryStore(sys.argv[1]), 0
while True:
    number += 1
    store.save("partition-1", bytes([number % 256]) * 3_000_000)
    print(number, flush=True)
"""


@pytest.mark.usefixtures("process")
def test_a_killed_writer_leaves_a_whole_one(tmp_path: Path) -> None:
    for delay_s in (0.0, 0.003, 0.006, 0.01):
        child = subprocess.Popen([sys.executable, "-c", SAVING, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(delay_s)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        store = DirectoryStore(tmp_path)
        blob = store.load(["partition-1"])["partition-1"]
        assert blob == blob[:1] * 3_000_000
        assert {it.name for it in tmp_path.iterdir()} == {LOCK, "partition-1.snapshot"}
        store.close()


def test_a_file_that_cannot_be_read_keeps_nobody_from_the_others(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    store.save("partition-1", b"one")
    (tmp_path / "partition-2.snapshot").mkdir()
    found = store.load(["partition-1", "partition-2", "partition-3"])
    assert found.keys() == {"partition-1", "partition-2"}
    assert found["partition-1"] == b"one"
    assert str(found["partition-2"]) == f"reading a file of the snapshot directory {tmp_path}: Is a directory"
    store.close()


def test_a_directory_that_is_made_anew_is_written_to(tmp_path: Path) -> None:
    place, moved = tmp_path / "snapshots", tmp_path / "moved"
    store = DirectoryStore(place)
    store.save("partition-1", b"before")
    assert store.missing(["partition-1", "partition-2"]) == ["partition-2"]
    place.rename(moved)
    place.mkdir()
    assert store.missing(["partition-1"]) == ["partition-1"]
    store.save("partition-1", b"after")
    assert store.load(["partition-1"]) == {"partition-1": b"after"}
    assert (moved / "partition-1.snapshot").read_bytes() == b"before"
    with pytest.raises(StoreError, match="in use"):
        DirectoryStore(place)
    DirectoryStore(moved).close()
    store.close()


@pytest.mark.parametrize("gone", ["deep", f"deep/snapshots/{LOCK}"])
def test_a_directory_that_is_deleted_is_made_again_and_kept_from_others(tmp_path: Path, gone: str) -> None:
    place = tmp_path / "deep" / "snapshots"
    store = DirectoryStore(place)
    (shutil.rmtree if (tmp_path / gone).is_dir() else os.unlink)(tmp_path / gone)
    assert store.missing([]) == []
    store.save("partition-1", b"after")
    assert store.load(["partition-1"]) == {"partition-1": b"after"}
    with pytest.raises(StoreError, match="in use"):
        DirectoryStore(place)
    store.close()
