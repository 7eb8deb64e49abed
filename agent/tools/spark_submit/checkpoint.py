"""What a stream's checkpoint belongs to: one set of settings, and one directory of tables.

Spark goes on from a checkpoint without asking by what it was made: another topic's offsets would be taken for this
one's, and into tables of another checkpoint records would be written twice or, batches being numbered, not at all.
So `kshadow.json` lies beside Spark's own files and `_kshadow.json` beside the tables (Spark does not read what begins
with `_`). The job writes them, on whatever file systems they are; what is on this machine is looked at before.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from agent.tools.spark_submit.errors import SubmitError
from agent.tools.spark_submit.jobs import Stream
from agent.tools.spark_submit.paths import local, local_directory, writes_to

MARK, OUT_MARK = "kshadow.json", "_kshadow.json"
STARTS = "kshadow-starts"
"""The job's own file in a checkpoint. Of releases before it may be alone: they left no mark on other file systems."""
_SPARKS = ("metadata", "offsets")


class CheckpointOwner(Struct, frozen=True, kw_only=True):
    """By what a checkpoint was made; `id` is its own."""

    id: str
    reads: str
    history_topic: str | None
    history: str | None
    cluster: str | None
    analyzers: str
    tuned: dict[str, str]
    format: str = "parquet"
    """Of the tables. Releases before wrote Parquet alone."""
    out: str | None = None
    """Where they are; None: a release before did not note it."""


class Tables(Struct, frozen=True, kw_only=True):
    """Which checkpoint the tables belong to."""

    id: str
    checkpoint: str


class ReadableFiles(Protocol):
    """A file system, or several. Raises `OSError`, or what it has of its own."""

    def names(self, directory: str) -> list[str]:
        """What is in a directory; nothing where there is none."""

    def read(self, path: str) -> bytes | None:
        """What a file holds; None where there is none."""


class Files(ReadableFiles, Protocol):
    """One that is written to as well."""

    def write(self, path: str, body: bytes) -> None:
        """Write a file, whole or not at all, and the directories that it needs."""


class LocalFileSystem:
    """The files of this machine, which are only looked at here: the job writes."""

    def names(self, directory: str) -> list[str]:
        """As `ReadableFiles` has it."""
        return os.listdir(directory) if os.path.isdir(directory) else []

    def read(self, path: str) -> bytes | None:
        """As `ReadableFiles` has it."""
        try:
            return Path(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None


def check_checkpoint(job: Stream) -> None:
    """Raise `SubmitError` where the checkpoint or the tables belong to another stream, as far as this machine shows
    it. Writes nothing."""
    if local(job.checkpoint) is not None:
        out = writes_to(job)
        _check(job, LocalFileSystem(), None if out is None or local(out) is None else out)


def claim(job: Stream, files: Files) -> None:
    """The same wherever they are, and write down that they belong to this one from now on."""
    out = writes_to(job)
    owner = _check(job, files, out) or _owner(job)
    try:
        _write(files, f"{job.checkpoint}/{MARK}", owner)
        if out is not None:
            _write(files, f"{out}/{OUT_MARK}", Tables(id=owner.id, checkpoint=job.checkpoint))
    except OSError as error:
        raise SubmitError(f"cannot write {error.filename}: {error.strerror}") from error


def check_tables(job: Stream, files: ReadableFiles) -> None:
    """Raise `SubmitError` where the tables of a stream that goes on are not there any more: what it writes later
    would look like all there is."""
    out = writes_to(job)
    if out is not None and files.read(f"{out}/{OUT_MARK}") is None:
        raise _tables_are_gone(job)


def _tables_are_gone(job: Stream) -> SubmitError:
    return SubmitError(
        f"--out {job.out}: expected the tables of the checkpoint {job.checkpoint}, they are not there (no"
        f" {OUT_MARK} is): put them back, or name another --checkpoint and --out"
    )


def _check(job: Stream, files: ReadableFiles, out: str | None) -> CheckpointOwner | None:
    if out is not None and _place(out) == _place(job.checkpoint):
        raise SubmitError(f"--checkpoint {job.checkpoint}: expected a directory of its own, got that of --out")
    owner: CheckpointOwner | None = _read(files, f"{job.checkpoint}/{MARK}", CheckpointOwner)
    # What begins with a dot is a file that was not written to its end, with an underscore what a lease leaves.
    there = sorted(it for it in files.names(job.checkpoint) if not it.startswith((".", "_")))
    if owner is None and there and STARTS not in there:
        raise SubmitError(_unowned(job.checkpoint, there))
    tables: Tables | None = None if out is None else _read(files, f"{out}/{OUT_MARK}", Tables)
    if owner is not None:
        is_ours = owner.out is None or (tables is not None and tables.id == owner.id)
        # A directory of tables may have been moved: its mark went with it.
        _compare(owner, replace(_owner(job), out=owner.out) if is_ours else _owner(job), job.checkpoint)
        is_gone = owner.out is not None and out is not None and tables is None
        if is_gone and files.names(f"{job.checkpoint}/commits"):
            raise _tables_are_gone(job)
    if tables is not None and (owner is None or owner.id != tables.id):
        raise SubmitError(
            f"--out {job.out}: expected tables of the checkpoint {job.checkpoint}, those of {tables.checkpoint}"
            f"{'' if tables.checkpoint != job.checkpoint else ', as it was before it was made anew,'} came:"
            " name another --out, or that --checkpoint"
        )
    return owner


def _place(path: str) -> str:
    """A directory by its one name, as far as this machine knows it."""
    here = local_directory(path)
    return path.rstrip("/") if here is None else os.path.realpath(here)


def _unowned(checkpoint: str, there: list[str]) -> str:
    of_spark = set(_SPARKS) <= set(there)
    kind = "one of Spark's that no kshadow spark stream made" if of_spark else "a directory of others"
    return (
        f"--checkpoint {checkpoint}: expected the checkpoint of a kshadow spark stream, or none yet, got {kind}"
        f" (there is no {MARK} in it): name another directory"
    )


def _compare(made_by: CheckpointOwner, asked: CheckpointOwner, checkpoint: str) -> None:
    then, now = asdict(made_by), asdict(asked)
    differing = "; ".join(
        f"{name.replace('_', '-')}: {_said(then[name])} then, {_said(now[name])} now"
        for name in then
        if name != "id" and then[name] != now[name]
    )
    if differing:
        raise SubmitError(
            f"--checkpoint {checkpoint}: made with other settings ({differing}): start it with those, or name"
            " another --checkpoint and --out"
        )


def _said(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={text}" for name, text in sorted(value.items())) or "none"
    return "none" if value is None else str(value)


def _owner(job: Stream) -> CheckpointOwner:
    return CheckpointOwner(
        id=uuid.uuid4().hex,
        reads=job.reads,
        history_topic=job.history_topic,
        history=job.history,
        cluster=job.cluster,
        analyzers=job.diagnosis.analyzers,
        tuned=job.diagnosis.tuned,
        format=job.format,
        out=job.out,
    )


def _read(files: ReadableFiles, path: str, kind: type[Any]) -> Any:
    try:
        body = files.read(path)
        return None if body is None else msgspec.json.decode(body, type=kind)
    except OSError as error:
        raise SubmitError(f"cannot read {path}: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SubmitError(f"{path}: expected what kshadow spark stream wrote, got something else: {error}") from None


def _write(files: Files, path: str, value: Any) -> None:
    if files.read(path) is None:
        files.write(path, msgspec.json.encode(value) + b"\n")
