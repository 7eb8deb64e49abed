"""One writer at a time on S3: an object that is written only where it is not there yet (`If-None-Match: *`).

Its holder writes it anew every few seconds, in place of its own last version (`If-Match`). Whoever finds it looks on:
an object that stays as it is for `DEAD_S` by the looker's own clock is of a dead process, and is taken over in place
of that very version, so that one of several takes it. Clocks of machines are not compared. A holder that was stopped
for so long finds before its next commit that it is the holder no more; stopped within a commit it would not: that is
as far as a lease goes.

A writing may be through though its answer was lost, and has failed then where it is made again: what stands there
tells whose it is.

The store must know conditional writes, as S3, MinIO and others do; one that ignores them is found out when the lease
is taken.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from agent.common.clock import now_ms
from agent.history.parquet_directory import Holder
from spark_jobs.errors import JobError
from spark_jobs.formats.api import OutputHeld
from spark_jobs.progress import print_status
from spark_jobs.writing import hadoop_files

RENEW_S, DEAD_S = 4.0, 30.0

_LOST = 412, 409
"""Of a condition that does not hold: said at once, or after another writer was through meanwhile."""
_ABSENT = 404


def is_s3(path: str) -> bool:
    """Whether Hadoop's S3A is asked for."""
    return urlsplit(path).scheme in ("s3a", "s3", "s3n")


class S3Lease:
    """The right to write what lies beside an object."""

    def __init__(self, spark: SparkSession, path: str, who: str) -> None:
        self._path, self._who, self._object = path, who, _S3Object(spark, path)
        self._id = uuid.uuid4().hex
        self._tag: str | None = None
        self._lock = threading.Lock()

    @contextmanager
    def held(self, wait_s: float) -> Iterator[None]:
        """Hold it. Raises `OutputHeld` where another process does after `wait_s`."""
        self._tag = self._take(wait_s)
        ended = threading.Event()
        renewing = threading.Thread(target=self._renew, args=(ended,), daemon=True)
        renewing.start()
        try:
            yield
        finally:
            ended.set()
            renewing.join()
            # What another has taken over meanwhile is not ours to remove.
            with suppress(JobError, Py4JError):
                self.check()
                self._object.delete()
            self._tag = None

    def check(self) -> None:
        """Raises `JobError` where it is lost, which it is after it could not be renewed for too long."""
        with self._lock:
            if self._tag is not None:
                self._tag = self._replaced(self._tag)
            if self._tag is None:
                raise JobError(f"{self._path}: another job has taken over, since this one did not move: run it again")

    def _renew(self, ended: threading.Event) -> None:
        while not ended.wait(RENEW_S):
            # What cannot be reached now may be by the next time; if not, `check` finds out.
            with suppress(JobError, Py4JError):
                self.check()

    def _take(self, wait_s: float) -> str:
        deadline, told = time.monotonic() + wait_s, False
        seen: tuple[str, str] | None = None
        changed_s = time.monotonic()
        while True:
            if (tag := self._object.put(self._text(), "If-None-Match", "*")) is not None:
                self._prove()
                return tag
            now = self._object.get()
            if now is None:
                continue
            if self._is_ours(now[0]):
                return now[1]
            holder = now[0].rpartition(" ")[0]
            if seen is None or now[1] != seen[1]:
                is_alive, seen, changed_s = seen is not None, now, time.monotonic()
                # It moves, so somebody is there.
                if is_alive and time.monotonic() >= deadline:
                    raise OutputHeld(f"{self._path}: expected nobody else writing there; {holder} is")
                if is_alive and not told:
                    print_status(f"{self._path}: waiting for {holder}")
                    told = True
            elif time.monotonic() - changed_s >= DEAD_S and (tag := self._replaced(now[1])) is not None:
                print_status(f"{self._path}: taken over from {holder}, which did not move for {DEAD_S:.0f} s")
                return tag
            time.sleep(RENEW_S / 4)

    def _replaced(self, tag: str) -> str | None:
        """The tag of what stands in place of that version now; None where another holder was first."""
        written = self._object.put(self._text(), "If-Match", tag)
        if written is None and (now := self._object.get()) is not None and self._is_ours(now[0]):
            return now[1]
        return written

    def _is_ours(self, text: str) -> bool:
        return text.rpartition(" ")[2].startswith(self._id)

    def _prove(self) -> None:
        """Raises `JobError` for a store that takes no notice of conditions."""
        if self._object.put(self._text(), "If-None-Match", "*") is not None:
            raise JobError(f"{self._path}: a store that knows conditional writes expected (If-None-Match)")

    def _text(self) -> str:
        # Never the same twice: the tag of an object is often a hash of it.
        return f"{Holder(self._who, os.getpid(), socket.gethostname(), now_ms())} {self._id}{uuid.uuid4().hex}"


class _S3Object:
    """An object, by the client that Hadoop's file system has: with its credentials, endpoint and proxy."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        files, _ = hadoop_files(spark, path)
        jvm: Any = spark._jvm
        self._sdk = jvm.software.amazon.awssdk
        self._client = files.getS3AInternals().getAmazonS3Client("lease of kshadow")
        self._path, parts = path, urlsplit(path)
        self._bucket, self._key = parts.netloc, parts.path.lstrip("/")

    def put(self, text: str, condition: str, value: str) -> str | None:
        """Write it under a condition; its tag then, None where the condition does not hold."""
        sdk = self._sdk
        how = sdk.awscore.AwsRequestOverrideConfiguration.builder().putHeader(condition, value).build()
        request = self._asked(sdk.services.s3.model.PutObjectRequest.builder()).overrideConfiguration(how).build()
        try:
            return str(self._client.putObject(request, sdk.core.sync.RequestBody.fromString(text)).eTag())
        except Py4JJavaError as error:
            status = _status(error)
            if status in _LOST or (status == _ABSENT and condition == "If-Match"):
                return None
            if status == _ABSENT:
                raise JobError(f"{self._path}: expected a bucket of that name, there is none") from error
            raise

    def get(self) -> tuple[str, str] | None:
        """What it holds, and its tag; None where it is not there."""
        request = self._asked(self._sdk.services.s3.model.GetObjectRequest.builder()).build()
        try:
            got = self._client.getObjectAsBytes(request)
        except Py4JJavaError as error:
            if _status(error) == _ABSENT:
                return None
            raise
        return str(got.asUtf8String()), str(got.response().eTag())

    def delete(self) -> None:
        """Give it back."""
        self._client.deleteObject(self._asked(self._sdk.services.s3.model.DeleteObjectRequest.builder()).build())

    def _asked(self, builder: Any) -> Any:
        return builder.bucket(self._bucket).key(self._key)


def _status(error: Py4JJavaError) -> int | None:
    code = getattr(error.java_exception, "statusCode", None)
    try:
        return None if code is None else int(code())
    except (Py4JError, TypeError):
        return None
