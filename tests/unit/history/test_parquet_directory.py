"""A directory of Parquet files: commits, leases, and readers meanwhile."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from agent.history import parquet_directory
from agent.history.errors import error_of
from agent.history.parquet_directory import CommitFailed, OutputBusy, ParquetDirectory, of_days

DAYS = ("2026-11-01", "2026-11-02", "2026-11-03")


def stage(staging: Path, value: int, days: tuple[str, ...] = DAYS, table: str = "") -> None:
    """One row a day."""
    for day in days:
        target = staging / table / f"date={day}" / "part-0.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"value": pa.array([value], pa.int64())}), target)


def write(directory: ParquetDirectory, label: str, value: int, days: tuple[str, ...] = DAYS, **how: object) -> int:
    with directory.staging() as staging, directory.lease("a test") as lease:
        for table in directory.tables:
            stage(staging, value, days, table)
        return lease.publish(staging, label, **how)  # type: ignore[arg-type]


def values(root: Path) -> list[tuple[str, int]]:
    """As a reader reads that knows nothing of ours."""
    table = ds.dataset(root, format="parquet", partitioning=ds.partitioning(flavor="hive")).to_table()
    return sorted((row["date"], row["value"]) for row in table.to_pylist())


def each(value: int, days: tuple[str, ...] = DAYS) -> list[tuple[str, int]]:
    return [(day, value) for day in days]


def left(root: Path) -> set[str]:
    """What is there that is no table's."""
    return {
        path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file() and path.suffix != ".parquet"
    }


@pytest.fixture
def directory(tmp_path: Path) -> ParquetDirectory:
    return ParquetDirectory(tmp_path / "out")


def test_a_label_replaces_itself_and_no_other(directory: ParquetDirectory) -> None:
    assert write(directory, "batch-1", 1) == 3
    assert write(directory, "batch-2", 2, DAYS[:1]) == 1
    write(directory, "batch-1", 3)
    assert values(directory.root) == sorted([*each(3), *each(2, DAYS[:1])])
    assert left(directory.root) == {"_lease", "_lock"}, "nothing is left behind"
    assert [(file.date, file.label) for file in directory.files(last="2026-11-01")] == [
        ("2026-11-01", "batch-1"),
        ("2026-11-01", "batch-2"),
    ]


def test_a_day_without_rows_any_more_keeps_its_name(directory: ParquetDirectory) -> None:
    write(directory, "rollup", 1)
    write(directory, "rollup", 2, DAYS[1:])
    assert values(directory.root) == each(2, DAYS[1:])
    assert len(directory.files()) == 3, "who has listed the first day's file finds one, without rows"


def test_days_go_over_to_another_label(directory: ParquetDirectory) -> None:
    for number in range(3):
        write(directory, f"batch-{number}", number)
    write(directory, "rollup", 9, DAYS[:2], replaces=of_days(*DAYS[:2]))
    assert values(directory.root) == [*each(9, DAYS[:2]), *((DAYS[2], number) for number in range(3))]
    assert [file.label for file in directory.files(first=DAYS[0], last=DAYS[1])] == ["rollup"] * 2


def test_all_tables_in_one_commit(tmp_path: Path) -> None:
    both = ParquetDirectory(tmp_path, ("groups", "causes"))
    write(both, "rollup", 1)
    with both.pin() as pin:
        write(both, "rollup", 2)
        assert values(pin.path("groups")) == values(pin.path("causes")) == each(1)
        assert {file.path.parent.parent.name for file in pin.files("groups")} == {"groups"}
    assert values(tmp_path / "groups") == values(tmp_path / "causes") == each(2)


def test_a_pin_of_some_days(directory: ParquetDirectory) -> None:
    write(directory, "rollup", 1)
    with directory.pin(first=DAYS[1]) as pin:
        assert pin.is_pinned
        assert values(pin.path()) == each(1, DAYS[1:])
        assert not pin.path().is_relative_to(directory.root / "date=2026-11-02")
    assert not pin.path().exists()


def test_what_symbolic_links_lead_to_is_pinned(directory: ParquetDirectory, tmp_path: Path) -> None:
    write(directory, "rollup", 1)
    for file in directory.files():
        link = tmp_path / "view" / file.path.relative_to(directory.root)
        link.parent.mkdir(parents=True)
        link.symlink_to(Path("../../out") / file.path.relative_to(directory.root))
    with ParquetDirectory(tmp_path / "view").pin() as pin:
        assert pin.is_pinned
        write(directory, "rollup", 2)
        assert values(pin.path()) == each(1)


def test_a_pin_of_nothing(directory: ParquetDirectory) -> None:
    with directory.pin() as pin:
        assert (pin.files(), pin.is_pinned) == ([], False)
    assert not directory.root.exists(), "to read makes nothing"


def test_a_pin_where_no_links_can_be_made(directory: ParquetDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    write(directory, "rollup", 1)

    def refuse(*_: object) -> None:
        raise PermissionError("links are not for you")

    monkeypatch.setattr(os, "link", refuse)
    with directory.pin() as pin:
        assert not pin.is_pinned
        assert values(pin.path()) == each(1)


def test_files_of_others_are_read_too(directory: ParquetDirectory) -> None:
    stage(directory.root / "deeper", 1)
    pq.write_table(pa.table({"value": [7]}), directory.root / "flat.parquet")
    with directory.pin(first=DAYS[2]) as pin:
        assert {file.path.relative_to(pin.path()).as_posix() for file in pin.files()} == {
            f"deeper/date={DAYS[2]}/part-0.parquet",
            "flat.parquet",
        }


def test_who_comes_second_is_told_who_is_there(directory: ParquetDirectory) -> None:
    said = rf"kshadow spark backfill \(process {os.getpid()} on .*, since 20"
    with directory.lease("kshadow spark backfill"):
        with pytest.raises(OutputBusy, match=said) as told, directory.lease("another"):
            pass
        assert told.value.holder is not None
        assert told.value.holder.pid == os.getpid()
    with directory.lease("another"):
        pass


def test_who_waits_gets_it(directory: ParquetDirectory) -> None:
    heard: list[OutputBusy] = []
    leaves = threading.Event()

    def on_wait(busy: OutputBusy) -> None:
        heard.append(busy)
        leaves.set()

    with directory.lease("the first") as first:
        waiter = threading.Thread(target=lambda: _publish_waiting(directory, on_wait))
        waiter.start()
        assert leaves.wait(30)
        with directory.staging() as staging:
            stage(staging, 1)
            first.publish(staging, "first")
    waiter.join(30)
    assert values(directory.root) == sorted([*each(1), *each(2)])
    assert len(heard) == 1


def _publish_waiting(directory: ParquetDirectory, on_wait: object) -> None:
    with directory.staging() as staging, directory.lease("the second", wait_s=30, on_wait=on_wait) as lease:  # type: ignore[arg-type]
        stage(staging, 2)
        lease.publish(staging, "second")


def beside(root: Path) -> Path:
    """Where what is staged and pinned lies."""
    return root.parent / f".{root.name}.kshadow"


@pytest.mark.parametrize("where", ["", "groups"])
def test_a_delta_table_is_left_alone(tmp_path: Path, where: str) -> None:
    """Its files would be taken for those of its days, and removed."""
    stage(tmp_path, 1, table="groups")
    (tmp_path / where / "_delta_log").mkdir()
    with pytest.raises(CommitFailed, match=f"^{tmp_path / where}: expected a directory of Parquet, .* Delta table"):
        write(ParquetDirectory(tmp_path, ("groups",)), "rollup", 2, replaces=of_days(DAYS[0], DAYS[-1]))
    assert values(tmp_path / "groups") == each(1)


def test_a_staging_that_is_gone_is_an_error(directory: ParquetDirectory) -> None:
    write(directory, "rollup", 1)
    with directory.lease("a test") as lease, pytest.raises(CommitFailed, match="it is not there"):
        lease.publish(directory.root / "_staging" / "gone", "rollup", replaces=of_days(DAYS[0], DAYS[2]))
    assert values(directory.root) == each(1)


def test_two_files_of_one_day_are_an_error(directory: ParquetDirectory) -> None:
    with directory.staging() as staging, directory.lease("a test") as lease:
        stage(staging, 1)
        stage(staging / "date=2026-11-01", 1, ("2026-11-01",))
        with pytest.raises(CommitFailed, match="expected one file of a day, got several"):
            lease.publish(staging, "rollup")
    assert directory.is_empty()


def test_only_the_dead_are_swept(directory: ParquetDirectory) -> None:
    write(directory, "rollup", 1)
    dead = [beside(directory.root) / kind / "dead" for kind in ("staging", "pins")]
    for path in dead:
        stage(path, 1)
    dead[0].with_suffix(".alive").touch()
    with directory.staging() as staging, directory.pin() as pin:
        stage(staging, 2)
        write(directory, "rollup", 3)
        assert not any(path.exists() for path in dead)
        assert values(pin.path()) == each(1)
        assert staging.is_dir()
    assert left(directory.root) == {"_lease", "_lock"}
    assert not beside(directory.root).exists()


def test_where_nothing_can_be_beside_it_is_below(
    directory: ParquetDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    write(directory, "rollup", 1)
    with directory.staging() as staging, directory.pin() as pin:
        assert directory.root in staging.parents
        assert values(pin.path()) == each(1)
    assert not beside(directory.root).exists()
    assert left(directory.root) == {"_lease", "_lock"}


def test_an_error_within_a_commit_leaves_it_to_be_finished(
    directory: ParquetDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(directory, "rollup", 1)
    moved = 0
    replace = Path.replace

    def fail(self: Path, target: Path) -> Path:
        nonlocal moved
        moved += target.suffix == ".parquet"
        if moved >= 2:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", fail)
        with pytest.raises(OSError, match="No space left"):
            write(directory, "rollup", 2)
        assert len(set(values(directory.root))) == 3
        assert (directory.root / "_journal.json").exists()
    with directory.pin() as pin:
        assert values(pin.path()) == each(2), "a reader that pins finishes it"
    assert values(directory.root) == each(2)
    with directory.lease("a test"):
        assert left(directory.root) == {"_lease", "_lock"}


def test_a_day_that_may_not_be_written_to_is_named(
    directory: ParquetDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Path.replace

    def refuse(self: Path, target: Path) -> Path:
        if target.suffix == ".parquet":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self), None, str(target))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(PermissionError) as denied:
        write(directory, "rollup", 1, DAYS[:1])
    assert str(error_of(denied.value)) == f"{directory.root}/date={DAYS[0]}/rollup.parquet: Permission denied"


def test_a_full_disk_is_told_by_the_file(directory: ParquetDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as error:
        write(directory, "rollup", 1, DAYS[:1])
    assert Path(error.value.filename).suffix == ".parquet"


def test_a_journal_whose_files_are_gone_says_what_to_do(directory: ParquetDirectory) -> None:
    write(directory, "rollup", 1)
    (directory.root / "_journal.json").write_text(
        '{"moves":[["_staging/x/a.parquet","date=2026-11-09/r.parquet"]],"removes":[]}'
    )
    with pytest.raises(CommitFailed, match=r"_journal.json, and write those days again"), directory.pin():
        pass
    (directory.root / "_journal.json").write_text("{")
    with pytest.raises(CommitFailed, match="expected the journal of a commit"), directory.lease("a test"):
        pass


def test_pins_and_plain_readers_while_days_are_replaced(directory: ParquetDirectory) -> None:
    """The small twin of `python -m tests.harness.spark.commits`."""
    write(directory, "rollup", 0)
    ended = threading.Event()
    wrong: list[object] = []
    reads = [0, 0]

    def pinned() -> None:
        while not ended.is_set():
            with directory.pin() as pin:
                seen = values(pin.path())
            reads[0] += 1
            if seen != each(seen[0][1]):
                wrong.append(seen)

    def plain() -> None:
        while not ended.is_set():
            seen = values(directory.root)
            reads[1] += 1
            if [day for day, _ in seen] != list(DAYS):
                wrong.append(seen)

    readers = [threading.Thread(target=_noting, args=(wrong, it)) for it in (pinned, plain)]
    for reader in readers:
        reader.start()
    number = 0
    while number < 20 or min(reads) < 20:
        number += 1
        write(directory, "rollup", number)
        if wrong:
            break
    ended.set()
    for reader in readers:
        reader.join(30)
    assert wrong == []


def _noting(wrong: list[object], call: object) -> None:
    try:
        call()  # type: ignore[operator]
    except Exception as error:  # noqa: BLE001  # any is wrong, in a thread of which nobody else hears
        wrong.append(error)


def test_a_commit_waits_for_who_is_pinning(directory: ParquetDirectory) -> None:
    write(directory, "rollup", 1)
    lock = parquet_directory._Locked(directory.root / "_lock", fcntl.LOCK_SH)
    writer = threading.Thread(target=write, args=(directory, "rollup", 2))
    writer.start()
    writer.join(0.2)
    assert writer.is_alive()
    assert values(directory.root) == each(1)
    lock.close()
    writer.join(30)
    assert values(directory.root) == each(2)
