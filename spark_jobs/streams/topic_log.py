"""Whether a stream's topic is still the one whose offsets its checkpoint has, with the partitions that are read.

A topic that was deleted and made anew begins at offset 0 again. Spark goes on at the offsets of the old one, and the
mirror passes over what is before them: records would be lost without a word. So the checkpoint says which it is.
Partitions that are added Spark does not read before the next start.
"""

from __future__ import annotations

import msgspec
from pyspark.sql import SparkSession

from agent.core.records import LogId
from agent.tools.spark_submit.jobs import Kafka
from spark_jobs.errors import ANEW, JobError, JobFailed
from spark_jobs.kafka import log_of
from spark_jobs.writing import HadoopFileSystem


class TopicLog:
    """The log of a stream's topic, which its checkpoint has from the first start on."""

    def __init__(self, spark: SparkSession, checkpoint: str, kafka: Kafka, topic: str) -> None:
        self._files, self._path = HadoopFileSystem(spark), f"{checkpoint}/kshadow-log"
        self._kafka, self._topic = kafka, topic
        self._known: LogId | None = None
        self._partitions: int | None = None

    def check(self) -> None:
        """Raises `JobError` where the topic is another one now, or the brokers do not say; `JobFailed` where it has
        more partitions than at first."""
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
                f"{self._topic}: it had {self._partitions} partitions as the stream started, it has {partitions} now:"
                " run it again, to read all of them"
            )
        self._partitions = partitions

    def _decoded(self, kept: bytes) -> LogId:
        try:
            return msgspec.json.decode(kept, type=LogId)
        except msgspec.MsgspecError as error:
            raise JobError(f"{self._path}: expected which topic it is, got something else: {error}: {ANEW}") from None
