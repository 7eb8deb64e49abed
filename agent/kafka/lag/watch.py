"""The watch over the ends: one thread that looks where partitions end, at an interval, and knows the past of them.

Owns when what is asked. Nothing waits for it: who wants lag takes the latest `snapshot`, a value. Should it fail, the
agent goes on without, and lag is absent.

A look is, for the partitions that groups commit to: their high watermarks; of those that moved since the last look,
or have a transaction open, the last stable offsets; every few looks where logs start; and the past of those that
somebody lags in since before it is known. A tenth of the topics' ids each time, and those
of topics that may be others than they were at once.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from random import uniform

from agent.common import clock
from agent.common.pacing import Backoff
from agent.common.text import named
from agent.common.threads import BackgroundThread
from agent.core.end_offsets import EndOffsets, PartitionId
from agent.core.shadow.views import CommittedOffset
from agent.kafka.lag.asking import OffsetAnswers, OffsetRequests
from agent.kafka.lag.end_offset_history import EndOffsetHistory
from agent.kafka.lag.offset_seeder import OffsetSeeder

log = logging.getLogger("kshadow")

CommittedOffsets = Mapping[str, Mapping[int, int]]
"""By topic and partition the lowest offset that a group has committed there."""

INTERVAL_S = 30.0
JITTER = 0.1
"""By which part of itself an interval is longer or shorter, so that many agents do not ask together."""
STARTS_LOOKS = 4
"""Every so many looks it is asked where logs start; and where a position is of before what is known."""
IDS_LOOKS = 10
"""In so many looks all topics' ids are asked for."""
SEEDS_PER_LOOK = 2_000
"""Partitions of one look whose past is asked for; the others' turn comes with the next ones."""
STEP_MS = 5_000
"""By more than this from look to look the wall clock runs away from a steady one only where it is set, or where the
machine stood still."""
SUSPENDED_S = 60.0
"""How long a topic that may not be asked for is left alone."""
LOGGED_TOPICS = 5
"""Topics that are named in a line of the log."""


class LagWatcher(BackgroundThread):
    """Started once there are groups, stopped with the agent; a question under way is let go then."""

    STOP_S = 1.0

    def __init__(
        self,
        conf: Mapping[str, str],
        wanted: Callable[[], CommittedOffsets],
        interval_s: float = INTERVAL_S,
        on_look: Callable[[int], None] = lambda at_ms: None,
    ) -> None:
        """`conf`: librdkafka properties. `wanted` is asked at each look, from the watch's thread, and `on_look` is
        told of it once the ends are known: their `at_ms`. Connects to nothing yet; raises `SourceMisconfigured`."""
        super().__init__("lag")
        self._wanted, self._interval_s, self._on_look = wanted, interval_s, on_look
        self._requests = OffsetRequests(conf, self._stop.is_set)
        self._history = EndOffsetHistory(round(interval_s * 1000))
        self._looks = 0
        self._wall_ahead_ms: int | None = None
        """Of the steady clock, at the last look."""
        self._ids: deque[str] = deque()
        """Topics by when their ids are due."""
        self._suspended: dict[str, float] = {}
        self._logged: set[str] = set()
        """Topics that are wanted, and of which it was told that they may not be asked for."""
        self._backoff = Backoff[None]()
        self._is_failing = False
        self._failing: set[PartitionId] = set()
        """What was not answered at the last look."""

    def change_interval(self, interval_s: float) -> None:
        """From the next look on, look that often."""
        self._interval_s = interval_s
        self._history.change_interval(round(interval_s * 1000))

    def snapshot(self) -> EndOffsets:
        """What is known of the ends: a value."""
        return self._history.snapshot

    @property
    def requests(self) -> dict[str, int]:
        """Questions to the brokers by how they ended (`OffsetOutcome`), for a scrape."""
        return {str(outcome): count for outcome, count in self._requests.requests.items()}

    def _run(self) -> None:
        while not self._stop.is_set():
            now = time.monotonic()
            self.look(now)
            wait = self._interval_s * uniform(1 - JITTER, 1 + JITTER)
            if paused := self._backoff.remaining_s(None, now):
                # No longer than while they answer: once they do again, lag is absent for so long.
                wait = min(paused, wait)
            self._stop.wait(max(wait - (time.monotonic() - now), 0.0))

    def look(self, now: float) -> bool:
        """Look once; whether brokers answered. `now` is of a clock that runs evenly, in seconds."""
        self._heed_clock(clock.now_ms() - clock.steady_ms())
        self._suspended = {topic: until for topic, until in self._suspended.items() if until > now}
        wanted = self._wanted()
        self._history.retain(wanted)
        self._logged &= wanted.keys()
        if not wanted:
            return True
        # Where a partition's leader is another one, or the same again, librdkafka goes on asking as of before, and is
        # refused (FENCED_LEADER_EPOCH), until it hears of the topic.
        self._ask_ids([*self._due_ids(wanted), *{topic for topic, _ in self._failing if topic in wanted}])
        at_ms = clock.now_ms()
        asked = [
            (topic, partition)
            for topic, partitions in wanted.items()
            if topic not in self._suspended
            for partition in partitions
        ]
        # What was not answered last time comes last, and keeps nothing else from being answered in time.
        asked.sort(key=self._failing.__contains__)
        answers = self._requests.high_watermarks(asked)
        if self._stop.is_set():
            return False
        self._failing = set(answers.failed)
        self._denied(answers.denied, now)
        self._allowed({topic for topic, _ in answers.offsets})
        if not self._answered(answers, now) and asked:
            return False
        moved, shrunk = self._history.add_high_watermarks(answers.offsets, at_ms)
        self._history.add_missing(answers.missing)
        self._ask_ids([*shrunk, *self._history.unidentified])
        self._history.add_last_stable(self._requests.last_stable_offsets(moved).offsets)
        lagging = {
            place: lowest
            for place in answers.offsets
            if (lowest := wanted[place[0]][place[1]]) < (self._history.end(place) or 0)
        }
        old = {place: offset for place, offset in lagging.items() if self._history.wants_seeds(place, offset)}
        self._history.add_log_starts(
            self._requests.log_starts(old if self._looks % STARTS_LOOKS else answers.offsets).offsets
        )
        self._looks += 1
        self._history.publish(at_ms)
        self._on_look(at_ms)
        if old:
            self._seed({place: self._history.next_kept(place, offset) for place, offset in old.items()}, at_ms)
            self._history.republish()
        return True

    def _heed_clock(self, wall_ahead_ms: int) -> None:
        """Forget when ends were seen by a wall clock that was set since."""
        before_ms, self._wall_ahead_ms = self._wall_ahead_ms, wall_ahead_ms
        if before_ms is None or abs(wall_ahead_ms - before_ms) <= STEP_MS:
            return
        log.warning(
            "this machine's clock jumped by %+.0f s: how long records wait is asked for anew",
            (wall_ahead_ms - before_ms) / 1000,
        )
        self._history.begin_anew()

    def _seed(self, old: Mapping[PartitionId, int], at_ms: int) -> None:
        """Ask for the past where somebody's position is of before what is known."""
        searches = {
            place: OffsetSeeder(offset, self._history.end(place) or 0, at_ms)
            for place, offset in islice(old.items(), SEEDS_PER_LOOK)
        }
        while searches and not self._stop.is_set():
            times = {place: it.time_ms for place, it in searches.items() if it.time_ms is not None}
            answers = self._requests.offsets_at_times(times)
            for place in list(searches):
                search = searches[place]
                if place in answers.offsets:
                    search.add_answer(answers.offsets[place])
                if search.time_ms is None:
                    self._history.add_seeds(place, search.points, is_complete=search.is_complete)
                if search.time_ms is None or place not in answers.offsets:
                    del searches[place]

    def _due_ids(self, wanted: CommittedOffsets) -> list[str]:
        known = set(self._ids)
        if not known <= wanted.keys():
            self._ids = deque(topic for topic in self._ids if topic in wanted)
        # Those that are new are asked for as soon as they are seen to have ends.
        self._ids.extend(topic for topic in wanted if topic not in known)
        count = -(-len(self._ids) // IDS_LOOKS)
        due = list(islice(self._ids, count))
        self._ids.rotate(-count)
        return [topic for topic in due if topic not in self._suspended]

    def _ask_ids(self, topics: Iterable[str]) -> None:
        ids, _ = self._requests.topic_ids(list(dict.fromkeys(topics)))
        for topic in self._history.add_topic_ids(ids):
            log.info("topic %r is another one than before: lag in it is counted anew", topic[:200])

    def _denied(self, topics: set[str], now: float) -> None:
        for topic in topics:
            self._history.add_denied(topic)
            self._suspended[topic] = now + SUSPENDED_S
        if news := topics - self._logged:
            self._logged |= news
            log.warning("no lag in topics %s: ACL operation Describe on them is needed", named(news, LOGGED_TOPICS))

    def _allowed(self, topics: set[str]) -> None:
        if given_back := topics & self._logged:
            self._logged -= given_back
            log.info("lag in topics %s is known again", named(given_back, LOGGED_TOPICS))

    def _answered(self, answers: OffsetAnswers, now: float) -> bool:
        """Whether brokers answered at all; what they did not answer is said once."""
        if answers.offsets or answers.missing or answers.denied:
            self._backoff.succeeded(None)
            if self._is_failing and not answers.errors:
                self._is_failing = False
                log.info("the ends of all partitions are seen again")
        elif answers.errors:
            self._backoff.failed(None, now)
            self._requests.heed_certificates()
        if answers.errors and not self._is_failing:
            self._is_failing = True
            reasons = "; ".join(f"{reason} ({count})" for reason, count in answers.errors.most_common(3))
            log.warning("the ends of some partitions are not answered, lag in them will be absent: %s", reasons)
        return bool(answers.offsets or answers.missing or answers.denied)


def fetch_end_offsets(conf: Mapping[str, str], offsets: Iterable[CommittedOffset]) -> EndOffsets:
    """Ask the brokers once where the partitions of these commits end, and since when.

    What they do not answer is missing. Raises `SourceMisconfigured`.
    """
    wanted: dict[str, dict[int, int]] = {}
    for it in offsets:
        wanted.setdefault(it.topic, {})[it.partition] = it.offset
    watcher = LagWatcher(conf, lambda: wanted)
    watcher.look(time.monotonic())
    return watcher.snapshot()
