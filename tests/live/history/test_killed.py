"""A writer that is killed within a commit, at each step of it: nothing is lost, doubled or half there."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from agent.history import parquet_directory
from agent.history.parquet_directory import ParquetDirectory, of_days

TABLES = ("groups", "causes")
DAYS = ("2026-11-01", "2026-11-02")
STEPS = ("_sync_file", "sync_directory")
"""Functions of the module that a commit calls on its way; beside them the methods of a path that move and remove."""


def files(value: int) -> dict[str, bytes]:
    """A commit's files, as they are staged: the second day is in one table only."""
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"value": [value]}), out)
    names = ("groups/date=2026-11-01", "causes/date=2026-11-01", "groups/date=2026-11-02")
    return dict.fromkeys(names, out.getvalue().to_pybytes())


def write(directory: ParquetDirectory, label: str, staged: dict[str, bytes]) -> None:
    with directory.staging() as staging, directory.lease("a test") as lease:
        for name, content in staged.items():
            (staging / name).mkdir(parents=True)
            (staging / name / "part-0.parquet").write_bytes(content)
        lease.publish(staging, label, replaces=of_days(*DAYS))


def state(directory: ParquetDirectory) -> dict[tuple[str, str | None, str], list[int]]:
    """What a reader sees that pins."""
    with directory.pin() as pin:
        return {
            (file.table, file.date, file.label): ds.dataset(file.path).to_table()["value"].to_pylist()
            for table in TABLES
            for file in pin.files(table)
        }


def killed_at(step: int, directory: ParquetDirectory, staged: dict[str, bytes]) -> bool:
    """Whether a process that writes was killed there: at the step of that number, before it is done."""
    pid = os.fork()
    if pid == 0:
        # Among what other tests left may be a Kafka client, whose threads are not here to be ended.
        gc.disable()
        left = step

        def counting(call):  # type: ignore[no-untyped-def]
            def counted(*arguments: object) -> object:
                nonlocal left
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1
                return call(*arguments)

            return counted

        for name in STEPS:
            setattr(parquet_directory, name, counting(getattr(parquet_directory, name)))
        Path.replace, os.unlink = counting(Path.replace), counting(os.unlink)  # type: ignore[method-assign]
        write(directory, "rollup", staged)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


@pytest.mark.usefixtures("process")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_at_each_step(tmp_path: Path) -> None:
    before, after = files(1), files(2)
    seen: list[bool] = []
    for step in range(200):
        directory = ParquetDirectory(tmp_path / str(step), TABLES)
        write(directory, "batch-7", before)
        old = state(directory)
        killed = killed_at(step, directory, after)
        came = state(directory)
        new = {(table, date, "rollup"): [2] for table, date, _ in old}
        assert came in (old, new), step
        seen.append(came == new)
        write(directory, "rollup", after)
        assert state(directory) == new, step
        assert {it.name for it in directory.root.rglob("*.alive")} == set(), "nothing is left of the dead"
        if not killed:
            break
    else:
        pytest.fail("a commit has fewer steps")
    assert seen == sorted(seen), "once the commit counts it counts"
    steps = (seen.index(True), len(seen) - 1)
    print(f"killed at {steps[1]} steps; from step {steps[0]} on the commit counts")
    assert 3 < steps[0] < steps[1] - 3, "kills came before it and after"
