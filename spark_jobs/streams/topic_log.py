"""Whether a stream's topic is still the one whose offsets its checkpoint has, with the partitions that are read.

A topic that was deleted and made anew begins at offset 0 again. Spark goes on at the offsets of the old one, and the
mirror passes over what is before them: records would be lost without a word. So the checkpoint says which it is.
Partitions that are added Spark does not read before the next start. What the topic has let go of before it was read
Spark passes over without a word as well.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

import msgspec
from pyspark.sql import SparkSession

from agent.core.records import LogId
from agent.tools.spark_submit.jobs import Kafka
from analyzers.formatting import count_text
from spark_jobs.errors import ANEW, JobError, JobFailed, Unreachable
from spark_jobs.kafka import begins_of, ends_of, log_of
from spark_jobs.progress import print_status
from spark_jobs.writing import HadoopFileSystem

_decode = msgspec.json.Decoder(dict[str, dict[int, int]]).decode
"""Offsets by topic and partition."""


class TopicLog:
    """The log of a stream's topic, which its checkpoint has from the first start on."""

    def __init__(self, spark: SparkSession, checkpoint: str, kafka: Kafka, topic: str) -> None:
        self._files, self._path = HadoopFileSystem(spark), f"{checkpoint}/kshadow-log"
        self._checkpoint = checkpoint
        self._kafka, self._topic = kafka, topic
        self._known: LogId | None = None
        self._partitions: int | None = None

    def check(self) -> None:
        """Raises `JobError` where the topic is another one now, or the brokers do not say; `JobFailed` where it has
        more partitions than at first. At first it is said what of it nobody can read any more."""
        found, partitions = log_of(self._kafka, self._topic)
        if (known := self._known) is None:
            kept = self._files.read(self._path)
            if kept is None:
                self._files.write(self._path, msgspec.json.encode(found))
            known = self._known = found if kept is None else self._decoded(kept)
        if known != found:
            raise JobError(
                f"{self._topic}: expected the topic that the checkpoint was begun with (id {known.topic_id}, cluster"
                f" {known.cluster_id}), it is another one now (id {found.topic_id}, cluster {found.cluster_id}):"
                f" {ANEW}"
            )
        if self._partitions is not None and partitions > self._partitions:
            raise JobFailed(
                f"{self._topic}: it had {count_text(self._partitions, 'partition')} as the stream started, it has"
                f" {partitions} now: run it again, to read all of them"
            )
        if self._partitions is None:
            self._tell_lost()
        self._partitions = partitions

    def unread(self, batch_id: int, read: Collection[int]) -> set[int]:
        """Of the partitions of which a batch has no record (`read`: all others), those that were not at their ends as
        it was planned, or may not have been: what was planned of them is compacted, or of no transaction that
        committed."""
        ends, begins = self._offsets(batch_id), self._offsets(batch_id - 1)
        silent = {number for number, end in ends.items() if number not in read and end > begins.get(number, 0)}
        try:
            now = ends_of(self._kafka, self._topic, silent) if silent else {}
        except Unreachable:
            return silent  # what the batch told is written: that is no reason to end
        return {number for number in silent if ends[number] < now[number]}

    def _tell_lost(self) -> None:
        """Say where the topic begins by now behind what the stream has read. Raises `JobError`."""
        read = self._read_up_to()
        begins = begins_of(self._kafka, self._topic, read)
        if lost := {number: begins[number] - offset for number, offset in read.items() if begins[number] > offset}:
            print_status(
                f"{self._topic}: up to {sum(lost.values()):,} records, of partitions"
                f" {', '.join(map(str, sorted(lost)))}, were deleted from it before this stream read them: what it"
                " writes lacks them"
            )

    def _read_up_to(self) -> dict[int, int]:
        """By partition the offset behind the last record of the batches that are done."""
        done = [int(it) for it in self._files.names(f"{self._checkpoint}/commits") if it.isdecimal()]
        return self._offsets(max(done)) if done else {}

    def _offsets(self, batch_id: int) -> dict[int, int]:
        """By partition the offset behind the last record that was planned for a batch, as Spark keeps it: a line for
        each source, behind those of its own."""
        kept = self._files.read(f"{self._checkpoint}/offsets/{batch_id}")
        # What cannot be read Spark says itself.
        with suppress(msgspec.MsgspecError, IndexError):
            return {} if kept is None else _decode(kept.splitlines()[-1]).get(self._topic, {})
        return {}

    def _decoded(self, kept: bytes) -> LogId:
        try:
            return msgspec.json.decode(kept, type=LogId)
        except msgspec.MsgspecError as error:
            raise JobError(f"{self._path}: expected which topic it is, got something else: {error}: {ANEW}") from None
