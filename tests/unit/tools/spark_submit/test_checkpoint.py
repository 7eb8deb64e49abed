"""Which stream a checkpoint and its tables belong to."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import rmtree

import pytest

from agent.tools.spark_submit import checkpoint as marks
from agent.tools.spark_submit.checkpoint import (
    MARK,
    OUT_MARK,
    STARTS,
    LocalFileSystem,
    check_checkpoint,
    check_tables,
)
from agent.tools.spark_submit.errors import SubmitError
from agent.tools.spark_submit.jobs import Diagnosis, Stream
from tests.unit.tools.spark_submit.doubles import WritableFileSystem, stream


def claim(job: Stream) -> None:
    """As the job does, on this machine."""
    marks.claim(job, WritableFileSystem())


def test_the_same_stream_goes_on(tmp_path: Path) -> None:
    job = stream(tmp_path, cluster="eu", diagnosis=Diagnosis(tuned={"rebalance_storm.window_s": "60"}))
    check_checkpoint(job)
    assert not list(tmp_path.iterdir()), "to look writes nothing"
    claim(job)
    kept = (tmp_path / "checkpoint" / MARK).read_bytes()
    # As Spark leaves it.
    (tmp_path / "checkpoint" / "metadata").touch()
    (tmp_path / "checkpoint" / "offsets").mkdir()
    check_checkpoint(job)
    claim(stream(tmp_path, cluster="eu", diagnosis=job.diagnosis, trigger_s=1.0, available_now=True))
    assert (tmp_path / "checkpoint" / MARK).read_bytes() == kept
    tables = json.loads((tmp_path / "out" / OUT_MARK).read_bytes())
    assert tables == {"id": json.loads(kept)["id"], "checkpoint": job.checkpoint}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"cluster": "us"}, "cluster: none then, us now"),
        ({"reads": "history", "history": "/h"}, "reads: topic then, history now; history: none then, /h now"),
        ({"reads": "history-topic", "history_topic": "h"}, "history-topic: none then, h now"),
        ({"diagnosis": Diagnosis(analyzers="none")}, "analyzers: all then, none now"),
        ({"diagnosis": Diagnosis(tuned={"a.b": "1"})}, "tuned: none then, a.b=1 now"),
        ({"out": "/elsewhere"}, "/out then, /elsewhere now"),
        ({"out": "s3a://bucket/out", "format": "delta"}, "/out then, s3a://bucket/out now"),
    ],
)
def test_another_stream_is_refused(tmp_path: Path, changed: dict[str, object], said: str) -> None:
    claim(stream(tmp_path))
    for refuse in (check_checkpoint, claim):
        with pytest.raises(SubmitError, match="made with other settings") as error:
            refuse(stream(tmp_path, **changed))
        assert said in str(error.value)


def test_a_checkpoint_among_its_tables_is_refused(tmp_path: Path) -> None:
    """Each has a lease of its own, for which the stream would wait for ever in the other's place."""
    (tmp_path / "link").symlink_to(tmp_path / "out")
    for checkpoint in (f"{tmp_path}/out/", f"{tmp_path}/link"):
        with pytest.raises(SubmitError, match=r"expected a directory of its own, got that of --out$"):
            check_checkpoint(stream(tmp_path, checkpoint=checkpoint))
    with pytest.raises(SubmitError, match="expected a directory of its own"):
        claim(stream(tmp_path, out="s3a://b/out/", checkpoint="s3a://b/out", format="delta"))


def test_tables_that_were_moved_go_on(tmp_path: Path) -> None:
    claim(stream(tmp_path))
    (tmp_path / "out").rename(tmp_path / "moved")
    claim(stream(tmp_path, out=f"{tmp_path}/moved"))


def test_tables_that_are_gone(tmp_path: Path) -> None:
    """A disk that is not mounted, say: what comes next would look like all there is."""
    job = stream(tmp_path)
    claim(job)
    rmtree(tmp_path / "out")
    claim(job)  # nothing was written yet
    (tmp_path / "checkpoint" / "commits").mkdir()
    (tmp_path / "checkpoint" / "commits" / "0").touch()
    claim(job)
    rmtree(tmp_path / "out")
    for look in (check_checkpoint, claim, lambda it: check_tables(it, LocalFileSystem())):
        with pytest.raises(SubmitError, match=r"/out: expected the tables of the checkpoint .*, they are not there"):
            look(job)
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_that_does_not_say_where_its_tables_are(tmp_path: Path) -> None:
    """As those of the release before."""
    claim(stream(tmp_path))
    mark = tmp_path / "checkpoint" / MARK
    kept = json.loads(mark.read_bytes())
    assert kept.pop("out") == f"{tmp_path}/out"
    mark.write_text(json.dumps(kept), encoding="utf-8")
    claim(stream(tmp_path, out=f"{tmp_path}/out-2"))


def test_a_checkpoint_of_a_release_that_left_no_mark(tmp_path: Path) -> None:
    """On other file systems than this machine's."""
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "offsets").mkdir(parents=True)
    for name in ("metadata", STARTS):
        (checkpoint / name).touch()
    claim(stream(tmp_path))
    with pytest.raises(SubmitError, match="cluster: none then, eu now"):
        claim(stream(tmp_path, cluster="eu"))


def test_a_directory_that_is_no_checkpoint_of_ours(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    check_checkpoint(stream(tmp_path))
    (checkpoint / "photos").mkdir()
    with pytest.raises(SubmitError, match="or none yet, got a directory of others"):
        check_checkpoint(stream(tmp_path))
    (checkpoint / "metadata").touch()
    (checkpoint / "offsets").mkdir()
    with pytest.raises(SubmitError, match="got one of Spark's that no kshadow spark stream made"):
        check_checkpoint(stream(tmp_path))


@pytest.mark.parametrize("text", ["", "{", '{"id":1}', "[]", "\ufeff{}"])
def test_a_mark_that_is_none(tmp_path: Path, text: str) -> None:
    claim(stream(tmp_path))
    (tmp_path / "checkpoint" / MARK).write_text(text, encoding="utf-8")
    with pytest.raises(SubmitError, match="expected what kshadow spark stream wrote, got something else"):
        check_checkpoint(stream(tmp_path))


def test_tables_belong_to_one_checkpoint(tmp_path: Path) -> None:
    claim(stream(tmp_path))
    other = stream(tmp_path, checkpoint=f"{tmp_path}/other")
    with pytest.raises(SubmitError, match=f"expected tables of the checkpoint {tmp_path}/other, those of") as error:
        check_checkpoint(other)
    assert str(tmp_path / "checkpoint") in str(error.value)
    claim(stream(tmp_path, checkpoint=f"{tmp_path}/other", out=f"{tmp_path}/out-2"))


def test_tables_of_a_checkpoint_that_was_removed(tmp_path: Path) -> None:
    claim(stream(tmp_path))
    (tmp_path / "checkpoint" / MARK).unlink()
    with pytest.raises(SubmitError, match="as it was before it was made anew"):
        check_checkpoint(stream(tmp_path))


def test_other_file_systems_are_the_jobs_business(tmp_path: Path) -> None:
    claim(stream(tmp_path))
    check_checkpoint(stream(tmp_path, checkpoint="s3a://bucket/checkpoint"))


def test_a_mark_that_was_not_written_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / f".{MARK}").touch()
    check_checkpoint(stream(tmp_path))


def test_a_checkpoint_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SubmitError, match="cannot write"):
        claim(stream(tmp_path, checkpoint=f"{tmp_path}/file/checkpoint"))
