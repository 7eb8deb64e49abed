"""Plain records of the topic in bulk, for the first reading of a long one: through librdkafka's interface for C, so
that no message becomes an object of Python's.

Owns a client of its own, which has no callbacks, and the thread that takes from it. Refuses to know what is out of
the ordinary: of an error, an offset that is lost, a batch that the client cannot take apart it says no more than that
a partition ends here. What that is `agent.kafka.source.topic` finds when it goes on from there.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Mapping
from ctypes import (
    CDLL,
    POINTER,
    byref,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_void_p,
    cast,
    create_string_buffer,
)
from functools import cache
from types import TracebackType
from typing import Any

import confluent_kafka.cimpl

from agent.common.native import SEED, Client, unlocked_library
from agent.common.threads import daemon_thread
from agent.config.logins import login_of
from agent.core.packed import PackedRun, RunMemory
from agent.core.record_time import FOLLOWERS
from agent.kafka.source.client import consumer_properties

log = logging.getLogger("kshadow")

RUN_RECORDS, RUN_BYTES = 32_768, 1 << 22
"""Of a partition a broker's answer has up to 2 MB, some 20,000 commits: a run is that. It ends at 3 MB (`FULL` in
commits.c), and one record more mostly fits in."""

RUNS_AHEAD = 4
"""So many wait to be taken, of 4 MB each at most but for its last record; then the client's own queue fills."""

BATCH_MESSAGES = 2_500
"""See `agent.kafka.source.topic.BATCH_RECORDS`."""

METADATA_TRIES, METADATA_MS, POLL_MS = 8, 250, 50

FETCHING = {"fetch.wait.max.ms": "5", "max.partition.fetch.bytes": "2097152"}
"""Where some partitions were read to their ends and the queues of the others are full, librdkafka asks for the former
alone; until a broker has answered that it is asked for nothing else, which takes as long as it waits for records."""


class BulkUnavailable(Exception):
    """Nothing can be read in bulk here; why not."""


def reason_against(conf: Mapping[str, str]) -> str | None:
    """Why nothing can be read in bulk with this configuration, as far as it shows before it is tried."""
    if unlocked_library() is None:
        return "nothing was compiled for this platform"
    if "OAUTHBEARER" in (conf.get("sasl.mechanisms"), conf.get("sasl.mechanism")) or login_of(conf) is not None:
        return "the tokens of its login come by a callback"
    return None


_CONSUMER = 1
_FUNCTIONS: Mapping[str, tuple[Any, list[Any]]] = {
    "rd_kafka_conf_new": (c_void_p, []),
    "rd_kafka_conf_set": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
    "rd_kafka_conf_set_log_cb": (None, [c_void_p, c_void_p]),
    "rd_kafka_conf_destroy": (None, [c_void_p]),
    "rd_kafka_new": (c_void_p, [c_int, c_void_p, c_char_p, c_size_t]),
    "rd_kafka_destroy": (None, [c_void_p]),
    "rd_kafka_metadata": (c_int, [c_void_p, c_int, c_void_p, POINTER(c_void_p), c_int]),
    "rd_kafka_metadata_destroy": (None, [c_void_p]),
    "rd_kafka_topic_new": (c_void_p, [c_void_p, c_char_p, c_void_p]),
    "rd_kafka_topic_destroy": (None, [c_void_p]),
    "rd_kafka_poll_set_consumer": (c_int, [c_void_p]),
    "rd_kafka_topic_partition_list_new": (c_void_p, [c_int]),
    "rd_kafka_topic_partition_list_add": (c_void_p, [c_void_p, c_char_p, c_int32]),
    "rd_kafka_topic_partition_list_set_offset": (c_int, [c_void_p, c_char_p, c_int32, c_int64]),
    "rd_kafka_topic_partition_list_destroy": (None, [c_void_p]),
    "rd_kafka_assign": (c_int, [c_void_p, c_void_p]),
    "rd_kafka_queue_get_consumer": (c_void_p, [c_void_p]),
    "rd_kafka_queue_yield": (None, [c_void_p]),
    "rd_kafka_queue_destroy": (None, [c_void_p]),
    "rd_kafka_consumer_close": (c_int, [c_void_p]),
}
"""Of librdkafka's public interface (rdkafka.h): what they return, what they take."""
_OF_MESSAGES = (
    "rd_kafka_consume_batch_queue",
    "rd_kafka_consume_queue",
    "rd_kafka_message_destroy",
    "rd_kafka_message_timestamp",
    "rd_kafka_message_leader_epoch",
)
"""In the order of `agent.common.native.Client`."""


@cache
def _librdkafka() -> CDLL:
    """The library that the Python client uses: what its module was linked with is found through the module. Raises
    `BulkUnavailable`."""
    try:
        found = CDLL(confluent_kafka.cimpl.__file__)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(found, name)
            function.restype, function.argtypes = result, arguments
        for name in _OF_MESSAGES:
            getattr(found, name)
    except (OSError, AttributeError) as error:
        raise BulkUnavailable(f"librdkafka's functions cannot be found: {error}") from None
    return found


class BulkReader:
    """Reads partitions from offsets on, without an end of its own: whoever takes knows how far it is to go.

    To be used in a `with` block, at whose end the client is closed.
    """

    def __init__(self, conf: Mapping[str, str], topic: str, starts: Mapping[int, int]) -> None:
        """`conf`: as a `TopicReader`'s. Connects to nothing yet. Raises `BulkUnavailable`."""
        lib, why_not = unlocked_library(), reason_against(conf)
        if lib is None or why_not is not None:
            raise BulkUnavailable(why_not)
        self._lib, self._rd = lib, _librdkafka()
        self._topic, self._starts = topic.encode(), starts
        self._runs: queue.Queue[PackedRun] = queue.Queue(RUNS_AHEAD)
        self._memory = RunMemory(RUN_RECORDS, RUN_BYTES)
        self._client = self._new_client(consumer_properties({**FETCHING, **conf}))
        self._messages = self._rd.rd_kafka_queue_get_consumer(self._client)
        self._stop = threading.Event()
        self._thread = daemon_thread("bulk", self._run)

    def __enter__(self) -> BulkReader:
        """Begin. Raises `BulkUnavailable`."""
        try:
            self._thread.start()
        except RuntimeError as error:
            self._close()
            raise BulkUnavailable(f"its thread cannot be started: {error}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        # Or it would sleep on until `POLL_MS` are over.
        self._rd.rd_kafka_queue_yield(self._messages)
        self._thread.join()
        self._close()

    def _close(self) -> None:
        self._rd.rd_kafka_queue_destroy(self._messages)
        self._rd.rd_kafka_consumer_close(self._client)
        self._rd.rd_kafka_destroy(self._client)
        self._memory.close()

    @property
    def is_over(self) -> bool:
        """Whether nothing comes any more, since the reading has failed."""
        return not self._thread.is_alive() and self._runs.empty()

    def take(self, timeout_s: float) -> PackedRun | None:
        """The next run: records, or what librdkafka says of their partition behind them (`run.error`), or both. It
        begins with the last `FOLLOWERS` records of the run of its partition before it (`run.repeated`), which these
        follow. None where none comes for so long."""
        try:
            return self._runs.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def _new_client(self, properties: Mapping[str, str]) -> int:
        rd, text = self._rd, create_string_buffer(512)
        conf = rd.rd_kafka_conf_new()
        # What goes wrong the ordinary reader meets as well, and tells.
        rd.rd_kafka_conf_set_log_cb(conf, None)
        # It reads from every leader, so it may connect to all brokers at once: else the second one waits for 50 ms.
        # A property that librdkafka does not document: without it, it is the same but for that.
        rd.rd_kafka_conf_set(conf, b"enable.sparse.connections", b"false", text, len(text))
        for name, value in properties.items():
            if rd.rd_kafka_conf_set(conf, name.encode(), str(value).encode(), text, len(text)):
                rd.rd_kafka_conf_destroy(conf)
                raise BulkUnavailable(f"property {name} is for Python's client alone")
        client: int | None = rd.rd_kafka_new(_CONSUMER, conf, text, len(text))
        if client is None:
            rd.rd_kafka_conf_destroy(conf)
            raise BulkUnavailable(text.value.decode(errors="replace"))
        return client

    def _run(self) -> None:
        try:
            self._assign()
            self._read()
        except Exception:
            log.exception("reading in bulk failed; the rest is read record by record")

    def _assign(self) -> None:
        rd, metadata = self._rd, c_void_p()
        rd.rd_kafka_poll_set_consumer(self._client)
        # Unasked it looks only a second later where the partitions are.
        topic = rd.rd_kafka_topic_new(self._client, self._topic, None)
        for _ in range(METADATA_TRIES):
            if self._stop.is_set():
                break
            if not rd.rd_kafka_metadata(self._client, 0, topic, byref(metadata), METADATA_MS):
                rd.rd_kafka_metadata_destroy(metadata)
                break
        rd.rd_kafka_topic_destroy(topic)
        partitions = rd.rd_kafka_topic_partition_list_new(len(self._starts))
        for number, offset in self._starts.items():
            rd.rd_kafka_topic_partition_list_add(partitions, self._topic, number)
            rd.rd_kafka_topic_partition_list_set_offset(partitions, self._topic, number, offset)
        rd.rd_kafka_assign(self._client, partitions)
        rd.rd_kafka_topic_partition_list_destroy(partitions)

    def _read(self) -> None:
        rd, lib = self._rd, self._lib
        functions = Client(*(cast(getattr(rd, name), c_void_p).value for name in _OF_MESSAGES))
        reader = lib.reader_new(byref(functions), self._messages, BATCH_MESSAGES, FOLLOWERS, *SEED)
        try:
            if reader is None:
                raise MemoryError(f"no memory for {BATCH_MESSAGES} messages")
            while not self._stop.is_set():
                packed = self._memory.take()
                lib.reader_next(reader, packed.address, POLL_MS)
                if packed.run.has_failed:
                    raise MemoryError("no memory for a record")
                if len(packed) > packed.run.repeated or packed.run.error:
                    self._put(packed)
        finally:
            lib.reader_free(reader)

    def _put(self, packed: PackedRun) -> None:
        while not self._stop.is_set():
            try:
                self._runs.put(packed, timeout=POLL_MS / 1000)
            except queue.Full:
                continue
            return
