"""What is kept across restarts, in a directory: what is gone on from, and what is refused and why."""

import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.core.events.events import event_of
from agent.core.records import LogId
from agent.kafka.source.progress import LogBounds
from agent.persistence.cluster_state import ClusterState, ReplayPosition, Snapshot
from agent.persistence.export.errors import SinkDown
from agent.persistence.export.pipeline import ExportPipeline, SpoolSettings
from agent.persistence.export.sinks import BatchLimits
from agent.persistence.snapshot.directory_store import DirectoryStore
from agent.persistence.snapshot.errors import UnwritableState
from agent.persistence.snapshot.migrations import FORMAT
from agent.persistence.snapshot.store import StoreError, StoreErrorReason
from agent.runtime.checkpointer import Checkpointer
from agent.runtime.export_deduplicator import ExportDeduplicator
from agent.simulation.generator.histories import generate
from analyzers.registry import select_analyzers
from tests.harness.state_digest import digest
from tests.unit.simulation.generator.making import SMALL, runs
from tests.waiting import until

LOG = LogId("cluster", "topic")


class Taking:
    """A sink that keeps lines in memory, and can be down."""

    name = "taking"
    batching = BatchLimits(100, 10**6, 0)

    def __init__(self) -> None:
        self.lines, self.down = [], False

    def write(self, batch):
        if self.down:
            raise SinkDown("down")
        self.lines += batch
        return []

    def close(self) -> None:
        pass


class Kept:
    """An agent's state with its keeper, without the agent."""

    def __init__(self, directory: Path, *, exports=None, current=True, max_age_s=3600.0) -> None:
        self.state, self.exported, self.lock = (
            ClusterState(select_analyzers()),
            ExportDeduplicator(),
            threading.Lock(),
        )
        self.exports = exports
        self.keeper = Checkpointer(
            lambda cluster_id: DirectoryStore(directory / cluster_id),
            self.state,
            self.lock,
            self.exported,
            exports,
            is_current=lambda number: current,
            interval_s=0.05,
            max_age_s=max_age_s,
        )

    def replay(self, some):
        out = []
        for run in some:
            outputs = self.state.replay_batch(run)
            if self.exports is not None:
                self.exports.put([event_of(it) for it in self.exported.unexported(outputs)])
            out += outputs
        return out


@pytest.fixture(scope="module")
def records():
    """A group of each fate."""
    return list(runs(generate(replace(SMALL, groups=19))))


def ends(some) -> dict[int, LogBounds]:
    out: dict[int, LogBounds] = {}
    for run in some:
        out[run.partition] = LogBounds(0, run.offsets[-1] + 1)
    return out


def kept(directory: Path, some, log=LOG, **more) -> Kept:
    """Somebody who has read these and has stopped."""
    it = Kept(directory, **more)
    assert it.keeper.restorer.restore(log, ends(some)) == {}
    it.replay(some)
    assert it.keeper.save(it.state.partitions, 5)
    it.keeper.finish(5)
    return it


def test_a_start_goes_on_where_the_last_one_ended(tmp_path, records):
    before = kept(tmp_path, records)
    again = Kept(tmp_path)
    starts = again.keeper.restorer.restore(LOG, ends(records))
    assert starts == {number: it.end for number, it in ends(records).items()}
    assert {it: digest(again.state, it) for it in starts} == {it: digest(before.state, it) for it in starts}
    reading = again.keeper.reading()
    assert (reading.restored, dict(reading.refused), reading.error) == (len(starts), {}, None)
    assert reading.oldest_age_s is not None
    again.keeper.finish(5)


def test_another_cluster_has_another_store(tmp_path, records):
    """As in a topic, whose keys name the cluster: the first restart read all anew."""
    it, other = Kept(tmp_path), LogId("other", "topic")
    assert it.keeper.restorer.restore(LOG, ends(records)) == {}
    assert it.keeper.restorer.restore(other, ends(records)) == {}
    it.replay(records)
    assert it.keeper.save(it.state.partitions, 5)
    it.keeper.finish(5)
    assert len(Kept(tmp_path).keeper.restorer.restore(other, ends(records))) == len(ends(records))


def test_where_the_store_of_another_cluster_cannot_be_opened_reading_goes_on(tmp_path, records, caplog):
    it = Kept(tmp_path)
    assert it.keeper.restorer.restore(LOG, ends(records)) == {}
    (tmp_path / "other").write_text("no directory")
    for _ in range(2):
        assert it.keeper.restorer.restore(LogId("other", "topic"), ends(records)) == {}
    it.replay(records)
    assert not it.keeper.save(it.state.partitions, 5)
    it.keeper.finish(5)
    assert sum("no snapshots are kept until a restart" in it for it in caplog.messages) == 1


@pytest.mark.parametrize(
    ("log", "bounds", "max_age_s", "why"),
    [
        (LOG, lambda it: LogBounds(it.end + 1, it.end + 5), 3600, "offset_gone"),  # 1: records that followed are gone
        (LOG, lambda it: LogBounds(0, it.end - 1), 3600, "offset_gone"),  # 2: the log was cut
        (LOG, lambda it: it, 0, "too_old"),  # 3
        (LogId("cluster", "another"), lambda it: it, 3600, "other_topic"),  # 4
    ],
)
def test_what_cannot_be_gone_on_from_is_refused(tmp_path, records, log, bounds, max_age_s, why):
    kept(tmp_path, records)
    time.sleep(0.01)
    again = Kept(tmp_path, max_age_s=max_age_s)
    all_ends = ends(records)
    assert again.keeper.restorer.restore(log, {number: bounds(it) for number, it in all_ends.items()}) == {}
    refused = dict(again.keeper.reading().refused)
    # The cluster's own image is of a topic, too.
    assert refused == {why: len(all_ends) + (why == "other_topic")}
    assert not again.state.partitions
    again.keeper.finish(5)


def move_wall(monkeypatch: pytest.MonkeyPatch, ahead_s: int) -> None:
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() + ahead_s)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + ahead_s * 10**9)


@pytest.mark.parametrize(("ahead_s", "is_refused"), [(2 * 3600, True), (1800, False)])
def test_a_snapshot_that_is_dated_ahead_may_be_of_any_age(tmp_path, records, monkeypatch, ahead_s, is_refused):
    with monkeypatch.context() as wrong:
        move_wall(wrong, ahead_s)
        kept(tmp_path, records)
    again = Kept(tmp_path)
    restored = again.keeper.restorer.restore(LOG, ends(records))
    refused = {"dated_ahead": len(ends(records))} if is_refused else {}
    assert (not restored, dict(again.keeper.reading().refused)) == (is_refused, refused)
    again.keeper.finish(5)


@pytest.mark.parametrize("ahead_s", [2 * 3600, -2 * 3600])
def test_all_is_kept_anew_once_the_clock_is_right_again(tmp_path, records, monkeypatch, ahead_s):
    """Though nothing changed: a restart would refuse what is dated by the clock that was wrong."""
    it = Kept(tmp_path)
    it.keeper.restorer.restore(LOG, ends(records))
    it.replay(records)
    with monkeypatch.context() as wrong:
        move_wall(wrong, ahead_s)
        assert it.keeper.save(it.state.partitions, 5)
    assert it.keeper.save(it.state.partitions, 5)
    it.keeper._ledger.store.close()  # a crash
    again = Kept(tmp_path)
    assert again.keeper.restorer.restore(LOG, ends(records)).keys() == ends(records).keys()
    again.keeper.finish(5)


@contextmanager
def exporting(directory: Path, some) -> Iterator[Kept]:
    """Somebody who has read these, and hands on what happened."""
    exports = ExportPipeline([Taking()], spool=None)
    exports.start()
    it = Kept(directory, exports=exports)
    it.keeper.restorer.restore(LOG, ends(some))
    it.replay(some)
    yield it
    it.keeper.finish(5)
    exports.stop(5)


def test_what_was_imaged_before_the_topic_was_made_anew_is_not_kept_as_of_the_new_one(tmp_path, records, monkeypatch):
    with exporting(tmp_path, records) as it:
        wait_durable, anew = it.exports.wait_durable, LogId("cluster", "made anew")

        def recreated(timeout_s: float, *more) -> bool:
            it.keeper.restorer.restore(anew, ends(records))
            return wait_durable(timeout_s, *more)

        monkeypatch.setattr(it.exports, "wait_durable", recreated)
        assert it.keeper.save(it.state.partitions, 5)
        assert not [*(tmp_path / "cluster").glob("*.snapshot")]
        monkeypatch.undo()


@pytest.mark.parametrize("is_under_way", [False, True])
def test_nobody_goes_on_from_a_snapshot_of_before_the_log_was_cut(tmp_path, records, monkeypatch, is_under_way):
    with exporting(tmp_path, records) as it:
        cut, *rest = sorted(it.state.partitions)
        wait_durable = it.exports.wait_durable

        def cut_now(timeout_s: float, *more) -> bool:
            it.state.forget(cut)
            it.keeper.log_cut(cut)
            return wait_durable(timeout_s, *more)

        if is_under_way:
            monkeypatch.setattr(it.exports, "wait_durable", cut_now)
        assert it.keeper.save(it.state.partitions, 5)
        monkeypatch.undo()
        if not is_under_way:
            cut_now(5)
        assert it.keeper._ledger.store.load([f"partition-{number}" for number in (cut, *rest)]).keys() == {
            f"partition-{number}" for number in rest
        }
        it.replay([run for run in records if run.partition == cut])
    again = Kept(tmp_path)
    assert again.keeper.restorer.restore(LOG, ends(records)).keys() == {cut, *rest}
    again.keeper.finish(5)


def test_a_snapshot_that_cannot_be_deleted_is_told(tmp_path, records, monkeypatch, caplog):
    it = Kept(tmp_path)
    it.keeper.log_cut(0)  # before there is a store
    it.keeper.restorer.restore(LOG, ends(records))

    def denied(name: str) -> None:
        raise StoreError(StoreErrorReason.DENIED, "read-only file system")

    monkeypatch.setattr(it.keeper._ledger.store, "delete", denied)
    it.keeper.log_cut(0)
    assert "partition 0: the snapshot of before its log was cut cannot be deleted" in caplog.text
    assert "read-only file system" in caplog.text
    it.keeper.finish(5)


def test_a_damaged_snapshot_is_refused_alone(tmp_path, records):
    kept(tmp_path, records)
    number = records[0].partition
    (file,) = (tmp_path / "cluster").glob(f"partition-{number}.*")
    file.write_bytes(file.read_bytes()[:-1])
    again = Kept(tmp_path)
    starts = again.keeper.restorer.restore(LOG, ends(records))
    assert starts.keys() == ends(records).keys() - {number}
    assert dict(again.keeper.reading().refused) == {"corrupt": 1}
    again.keeper.finish(5)


def test_files_that_cannot_be_read_are_refused_alone(tmp_path, records, caplog):
    """What the others hold is gone on from, and nothing that is safe is told again but what no position tells of."""
    with exporting(tmp_path, records):
        pass
    number, *_, other = sorted(ends(records))
    for name in (f"partition-{number}", f"history-taking-{other}"):
        (file,) = (tmp_path / "cluster").glob(f"{name}.*")
        file.unlink()
        file.mkdir()
    again = Kept(tmp_path, exports=ExportPipeline([Taking()], spool=None))
    starts = again.keeper.restorer.restore(LOG, ends(records))
    assert starts.keys() == ends(records).keys() - {number}
    assert dict(again.keeper.reading().refused) == {"unreadable": 1}
    assert again.exported.unexported(again.state.replay_batch(records[0])) == []
    why = f"reading a file of the snapshot directory {tmp_path / 'cluster'}: Is a directory"
    assert [it.getMessage() for it in caplog.records if it.levelname == "WARNING"] == [
        f"history positions refused (partition {other}), what the log shows is told again: {why}",
        f"snapshots refused (partition {number}), what they hold is read from the beginning: {why}",
    ]


def test_a_partition_that_cannot_be_stored_keeps_nobody_from_the_others(tmp_path, records):
    """As where one snapshot is larger than there is room. Once that is over, all are stored: what was there may be
    gone."""
    it = Kept(tmp_path)
    it.keeper.restorer.restore(LOG, ends(records))
    it.replay(records)
    first, *rest = sorted(it.state.partitions)
    blocked = tmp_path / "cluster" / f"partition-{first}.snapshot"
    blocked.mkdir()
    assert not it.keeper.save(it.state.partitions, 5)
    assert "Is a directory" in it.keeper.reading().error
    stored = {path.name for path in (tmp_path / "cluster").iterdir() if path.is_file()}
    assert stored == {".lock", "cluster.snapshot", *(f"partition-{number}.snapshot" for number in rest)}
    assert it.keeper.reading().oldest_age_s is None, "as long as one was never stored"
    blocked.rmdir()
    (tmp_path / "cluster" / f"partition-{rest[0]}.snapshot").unlink()
    assert it.keeper.save(it.state.partitions, 5)
    again = Kept(tmp_path)
    it.keeper.finish(5)
    assert again.keeper.restorer.restore(LOG, ends(records)).keys() == ends(records).keys()
    again.keeper.finish(5)


def test_while_one_cannot_be_stored_the_others_are_when_they_change(tmp_path, records):
    """All were stored anew at each interval, for as long as that lasted."""
    it = Kept(tmp_path)
    it.keeper.restorer.restore(LOG, ends(records))
    it.replay(records)
    first, other, *rest = sorted(it.state.partitions)
    blocked = tmp_path / "cluster" / f"partition-{first}.snapshot"
    blocked.mkdir()

    def stored() -> int:
        before = it.keeper.reading().writes["ok"]
        it.keeper.save(it.state.partitions, 5)
        return it.keeper.reading().writes["ok"] - before

    assert stored() == 1 + len(rest)
    assert stored() == 0
    it.state.advance(max(run.timestamps_ms[-1] for run in records) + 3_600_000, [other])
    assert stored() == 1
    blocked.rmdir()
    assert (stored(), it.keeper.reading().error) == (1, None), "the one that could not be"
    assert stored() == 1 + len(rest), "what was there may be gone: it may have been cleared to make room"
    assert stored() == 0
    it.keeper.finish(5)


@pytest.mark.parametrize("gone", ["cluster", "cluster/partition-*"])
def test_snapshots_that_are_deleted_are_stored_again(tmp_path, records, caplog, gone):
    """In the last cycle, too, and though nothing changed."""
    it = Kept(tmp_path)
    it.keeper.restorer.restore(LOG, ends(records))
    it.replay(records)
    assert it.keeper.save(it.state.partitions, 5)
    for path in tmp_path.glob(gone):
        (shutil.rmtree if path.is_dir() else os.unlink)(path)
    assert it.keeper.finish(5)
    assert len(list((tmp_path / "cluster").glob("partition-*"))) == len(it.state.partitions)
    (line,) = caplog.messages
    assert line == f"snapshots of {len(it.state.partitions)} partitions were deleted or moved; they are stored again"


def test_snapshots_that_are_refused_for_one_reason_are_told_in_one_line(tmp_path, records, caplog):
    """And what stands in them is text of whoever may write there: it is no form of the line."""
    with exporting(tmp_path, records):
        pass
    (tmp_path / "cluster").rename(tmp_path / "other %s")
    again = Kept(tmp_path, exports=ExportPipeline([Taking()], spool=None))
    caplog.clear()
    assert again.keeper.restorer.restore(LogId("other %s", "topic"), ends(records)) == {}
    assert len(caplog.records) == 2, caplog.text
    assert "and " in caplog.records[1].getMessage()
    assert "more), what they hold is read from the beginning: expected a snapshot of cluster other %s" in caplog.text
    again.keeper.finish(5)


def test_snapshots_of_another_release_are_refused_in_one_line(tmp_path, records, caplog, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr("agent.persistence.snapshot.envelope.FORMAT", 1)
        kept(tmp_path, records)
    again = Kept(tmp_path)
    assert again.keeper.restorer.restore(LOG, ends(records)) == {}
    (line,) = (it.getMessage() for it in caplog.records if "refused" in it.getMessage())
    assert line.startswith("snapshots refused (the cluster's analyzers, partition ")
    assert line.endswith(
        " more), what they hold is read from the beginning:"
        f" expected a snapshot of format {FORMAT}, got one of format 1"
    )


def test_behind_the_end_a_state_is_as_old_as_its_last_record(tmp_path, records):
    """The generated history is of long ago: who had not read to its end knows nothing of since."""
    kept(tmp_path, records, current=False)
    again = Kept(tmp_path)
    assert again.keeper.restorer.restore(LOG, ends(records)) == {}
    assert set(again.keeper.reading().refused) == {"too_old"}
    again.keeper.finish(5)


def with_a_sink_that_is_down(tmp_path, records):
    sink = Taking()
    sink.down = True
    exports = ExportPipeline([sink], spool=None)
    exports.start()
    it = Kept(tmp_path, exports=exports)
    it.keeper.restorer.restore(LOG, ends(records))
    it.replay(records)
    return sink, exports, it


def test_no_snapshot_before_the_history_is_safe(tmp_path, records):
    sink, exports, it = with_a_sink_that_is_down(tmp_path, records)
    assert not it.keeper.save(it.state.partitions, 0.3)
    assert "history is not safe" in it.keeper.reading().error
    assert not list((tmp_path / "cluster").glob("partition-*"))
    sink.down = False
    assert it.keeper.save(it.state.partitions, 20)
    assert it.keeper.reading().error is None
    it.keeper.finish(5)
    exports.stop(5)
    told = len(sink.lines)
    assert told > 0

    # Refused or not, what is safe is told no more: here the log is read again from its beginning.
    sink.lines.clear()
    exports = ExportPipeline([sink], spool=SpoolSettings(tmp_path / "spool", "c"))
    exports.start()
    again = Kept(tmp_path, exports=exports, max_age_s=0)
    assert again.keeper.restorer.restore(LOG, ends(records)) == {}
    assert len(again.replay(records)) == told
    assert exports.wait_durable(10)
    assert sink.lines == []
    again.keeper.finish(5)
    exports.stop(5)


def test_a_stop_does_not_wait_for_the_barrier_of_a_cycle(tmp_path, records, caplog):
    """It waited for all of its 30 s, which is more than the stop of an agent has: so it was not told what is lost."""
    _, exports, it = with_a_sink_that_is_down(tmp_path, records)
    it.keeper.start()
    until(it.keeper._ledger.storing.locked)
    began = time.monotonic()
    assert not it.keeper.finish(4)
    assert time.monotonic() - began < 20
    (line,) = [it.getMessage() for it in caplog.records if it.name == "kshadow"]
    assert "is not saved; they are read again from the beginning of each: history is not safe" in line
    exports.stop(1)


def test_it_keeps_by_itself_and_says_what_fails(tmp_path, records):
    it = Kept(tmp_path)
    it.keeper.restorer.restore(LOG, ends(records))
    it.replay(records)
    it.keeper.start()
    until(lambda: it.keeper.reading().oldest_age_s is not None)
    it.keeper.finish(5)
    assert it.keeper.reading().writes["ok"] >= len(it.state.partitions)

    first = DirectoryStore(tmp_path / "cluster")
    with pytest.raises(StoreError):
        Kept(tmp_path).keeper.restorer.restore(LOG, ends(records))
    first.close()


def test_cycles_take_a_tenth_of_a_core_at_most(tmp_path, monkeypatch):
    keeper, waited = Kept(tmp_path).keeper, []
    cpu_s = iter([0.0, 15.0, 15.0, 15.5])

    class Stop:
        def wait(self, timeout_s: float) -> bool:
            waited.append(timeout_s)
            return len(waited) == 3

    monkeypatch.setattr(keeper, "_stop", Stop())
    monkeypatch.setattr(time, "thread_time", lambda: next(cpu_s))
    keeper._run()
    assert waited == pytest.approx([0.05, 150, 5])


def test_what_is_given_up_is_kept_first_but_not_what_is_lost(tmp_path, records):
    it = Kept(tmp_path)
    it.keeper.restorer.restore(LOG, ends(records))
    it.replay(records)
    one, other, *_ = sorted(it.state.partitions)
    it.keeper.partitions_revoked([one], lost=False)
    it.keeper.partitions_revoked([other], lost=True)
    assert [path.name.split(".")[0] for path in (tmp_path / "cluster").glob("partition-*")] == [f"partition-{one}"]
    assert it.state.position(one) == ReplayPosition(*it.state.position(one))
    it.keeper._ledger.store.close()


def test_a_state_that_no_image_can_hold_is_said_and_ends_nothing(tmp_path, records, monkeypatch):
    """As where a third party's analyzer puts into a finding what no JSON can hold."""
    it = Kept(tmp_path)
    it.keeper.restorer.restore(LOG, ends(records))
    it.replay(records)
    with monkeypatch.context() as patch:
        patch.setattr(
            "agent.persistence.cluster_state.Snapshot.encode",
            lambda *given: (_ for _ in ()).throw(UnwritableState("too large")),
        )
        assert not it.keeper.save(it.state.partitions, 5)
    assert it.keeper.reading().error == "too large"
    assert it.keeper.save(it.state.partitions, 5)
    assert it.keeper.reading().error is None
    it.keeper.finish(5)


def test_a_state_that_no_image_can_hold_keeps_no_other_from_its_snapshot(tmp_path, records, monkeypatch):
    it = Kept(tmp_path)
    it.keeper.restorer.restore(LOG, ends(records))
    it.replay(records)
    one, *others = sorted(it.state.partitions)
    encode = Snapshot.encode

    def encode_others(snapshot, *given):
        if snapshot.header.identity.partition == one:
            raise UnwritableState("too large")
        return encode(snapshot, *given)

    monkeypatch.setattr(Snapshot, "encode", encode_others)
    assert not it.keeper.save(it.state.partitions, 5)
    assert it.keeper.reading().error == "too large"
    stored = {path.name.split(".")[0] for path in (tmp_path / "cluster").glob("partition-*")}
    assert stored == {f"partition-{number}" for number in others}
    it.keeper.finish(5)


SNAPSHOT = r"the last snapshot of \d{4}-\d\d-\d\d \d\d:\d\d UTC"


@pytest.mark.parametrize(
    ("saved", "since"),
    [
        (slice(0), "the beginning of each"),  # 1: none was kept
        (slice(None), SNAPSHOT),  # 2: all were
        (slice(5), f"{SNAPSHOT}, those that have none from their beginning"),  # 3: some were
    ],
)
def test_a_last_snapshot_that_fails_is_not_said_to_be_tried_again(tmp_path, records, caplog, saved, since):
    it = Kept(tmp_path)
    it.keeper.restorer.restore(LOG, ends(records))
    it.replay(records)
    known = sorted(it.state.partitions)
    assert it.keeper.save(known[saved], 5)
    it.state.advance(max(run.timestamps_ms[-1] for run in records) + 3_600_000)
    (tmp_path / "cluster").rename(tmp_path / "moved")
    (tmp_path / "cluster").touch()
    assert not it.keeper.finish(5)
    (line,) = [record.getMessage() for record in caplog.records]
    said = f"the state of partitions {re.escape(str(known))} is not saved; they are read again from {since}: "
    assert re.fullmatch(f"{said}opening the snapshot directory .*: Not a directory", line)


def test_what_was_given_up_without_a_snapshot_is_not_saved_at_the_end(tmp_path, records, caplog):
    """The last cycle had nothing left to keep: it said that snapshots are kept again, and that all was well."""
    it = Kept(tmp_path)
    it.keeper.restorer.restore(LOG, ends(records))
    it.replay(records)
    (tmp_path / "cluster").rename(tmp_path / "moved")
    (tmp_path / "cluster").touch()
    given = sorted(it.state.partitions)
    it.keeper.partitions_revoked(given, lost=False)
    for number in given:
        it.state.forget(number)
    assert it.keeper.finish(5) is False
    assert "Not a directory" in it.keeper.reading().error
    assert [record.levelname for record in caplog.records] == ["ERROR"]
