"""Lag for whoever asks once: a command, or one group of the agent's."""

from __future__ import annotations

import time
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Mapping

from agent.forms import NO_LAG, Form, LagOf
from agent.lag.ends import Ends
from agent.lag.watch import LagWatch
from agent.shadow.views import CommittedOffset
from agent.wire.primitives import ZERO_UUID


def look_once(conf: Mapping[str, str], offsets: Iterable[CommittedOffset]) -> Ends:
    """Ask the brokers where the partitions of these commits end, and since when. What they do not answer is not
    there. Raises `SourceMisconfigured`."""
    wanted: dict[str, dict[int, int]] = {}
    for it in offsets:
        wanted.setdefault(it.topic, {})[it.partition] = it.offset
    watch = LagWatch(conf, lambda: wanted)
    watch.look(time.monotonic())
    return watch.snapshot()


def lag_of(ends: Ends, now_ms: int, *, are_newer: bool = False) -> LagOf:
    """For `describe_form`: the lag of a commit by these ends. `are_newer`: they were asked for when the commits were
    there already."""

    def of(it: CommittedOffset) -> Form:
        topic_id = ZERO_UUID if it.topic_id is None else urlsafe_b64decode(it.topic_id + "==")
        committed_ms = 0 if are_newer else it.committed_ms
        lag = ends.lag(it.topic, it.partition, it.offset, committed_ms, topic_id, now_ms)
        end = ends.end(it.topic, it.partition, now_ms)
        form = {
            **NO_LAG,
            "lag": lag.records,
            "lag_seconds": None if lag.seconds is None else round(lag.seconds, 3),
            "lag_seconds_at_least": lag.at_least,
            "lag_note": None if lag.note is None else str(lag.note),
        }
        if end is not None:
            form |= {"log_start": end.start, "end": end.end}
        if lag.records is not None:
            form |= {"held_back": lag.held_back, "lost": lag.lost}
        return form

    return of
