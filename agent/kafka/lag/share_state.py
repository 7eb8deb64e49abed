"""The watch over `__share_group_state`: how far share groups are, as their coordinator writes it down.

Owns the reading. librdkafka has no request for a share group's positions, and the topic has them all. It is read only
once the mirror has a share group. Needs Read and Describe on it; where that is missing, or nothing is to be read, the
positions and the lag of share groups are absent, and all else works.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from agent.common.threads import BackgroundThread
from agent.core.share_positions import TOPIC, SharePosition, SharePositions
from agent.core.wire.primitives import Uuid
from agent.kafka.source.errors import SourceDenied, SourceError, TopicMissing
from agent.kafka.source.once import read_to_end
from agent.kafka.source.progress import OffsetReset, TopicRecreated
from agent.kafka.source.quarantine import PassedOver
from agent.kafka.source.topic import TopicReader

log = logging.getLogger("kshadow")

LOOK_S = 2.0
"""Between two looks whether there is a share group; the topic is made for the first of them."""
RETRY_S = 10.0
SUSPENDED_S = 60.0
"""How long the topic is left alone where a right is missing."""
POLL_S = 0.25


class ShareStateWatcher(BackgroundThread):
    """Started with the watch over the ends, stopped with the agent."""

    STOP_S = 1.0

    def __init__(self, conf: Mapping[str, str], is_wanted: Callable[[], bool]) -> None:
        """`conf`: librdkafka properties. `is_wanted`: whether there are share groups, asked from the watch's thread.
        Connects to nothing yet."""
        super().__init__("share-state")
        self._conf, self._is_wanted = conf, is_wanted
        self._lock = threading.Lock()
        self._positions = SharePositions()
        self._is_current = False
        """Whether all that was written is known."""
        self._told: set[type[SourceError]] = set()
        """What kinds of reasons were told since it was known."""

    @property
    def groups(self) -> list[str]:
        """The groups whose positions are known; none while the topic is not read to its end."""
        with self._lock:
            return self._positions.groups if self._is_current else []

    def positions(self, group: str, names: Mapping[Uuid, str]) -> list[SharePosition]:
        """A group's positions in topics whose names are given, in order; none that may be out of date."""
        with self._lock:
            return list(self._positions.of_group(group, names)) if self._is_current else []

    def _run(self) -> None:
        wait_s = 0.0
        while not self._stop.wait(wait_s):
            wait_s = LOOK_S
            if self._is_wanted():
                wait_s = self._try_to_read()

    def _try_to_read(self) -> float:
        """Read until it fails or is stopped; how long to wait for the next try, in seconds."""
        try:
            self._read()
        except TopicMissing:
            return LOOK_S
        except SourceDenied as error:
            self._tell_once("no positions and no lag of share groups", error)
            return SUSPENDED_S
        except SourceError as error:
            self._tell_once("no positions and no lag of share groups for now", error)
        return RETRY_S

    def _read(self) -> None:
        with self._lock:
            self._positions, self._is_current = SharePositions(), False
        with TopicReader(self._conf, topic=TOPIC) as reader:
            try:
                reader.connect()
                while not self._stop.is_set():
                    batches = reader.poll(POLL_S)
                    with self._lock:
                        for batch in batches:
                            for record in batch.records():
                                self._positions.replay(record.key, record.value, record.timestamp_ms)
                        for notice in reader.take_notices():
                            if isinstance(notice, TopicRecreated | OffsetReset):
                                # What was deleted meanwhile nothing tells any more: all is read anew.
                                return
                            if isinstance(notice, PassedOver):
                                log.warning("%s: %s", TOPIC, notice)
                        self._is_current = reader.caught_up and reader.healthy
                    if self._is_current:
                        self._told.clear()
                    if isinstance(reader.last_error, SourceDenied):
                        raise reader.last_error
            finally:
                self._is_current = False

    def _tell_once(self, text: str, error: SourceError) -> None:
        # Not by what it says: how long a connection took is in it.
        if type(error) not in self._told:
            self._told.add(type(error))
            log.warning("%s: %s", text, error)


def fetch_share_positions(conf: Mapping[str, str], group: str, names: Mapping[Uuid, str]) -> list[SharePosition]:
    """Read the topic once, to where it ends now. Raises `SourceError`; a topic that is not there says nothing."""
    positions = SharePositions()
    try:
        for batch in read_to_end(conf, topic=TOPIC):
            for record in batch.records():
                positions.replay(record.key, record.value, record.timestamp_ms)
    except TopicMissing:
        return []
    return list(positions.of_group(group, names))
