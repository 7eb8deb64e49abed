"""What is asked of a running agent: answers from its state, partition by partition under the lock, and its health."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec.structs import asdict, replace

from agent.common import clock
from agent.common.threads import BackgroundThread
from agent.core.events.samples import LagNote
from agent.core.open_transactions import OpenTransactions
from agent.core.protocol.group_placement import observe_placement, possible_partitions
from agent.core.protocol.states import GroupType
from agent.core.queries import CAUGHT_UP, Health, JsonObject, Timeline
from agent.core.shadow.views import GroupView, one_of_each
from agent.kafka.admin_api.sampled_reader import SampledReader
from agent.kafka.source.quarantine import PassedOver
from agent.presentation.narrative import findings, staleness
from agent.presentation.narrative.events import events_within
from agent.presentation.narrative.sampling import (
    LIMITATIONS,
    NOTHING_LISTED,
    UNLISTED,
    missed_phrase,
    withheld_phrase,
)
from agent.presentation.narrative.words import duration
from agent.runtime.parts import AgentParts
from agent.runtime.reader_loop import ReaderLoop
from agent.runtime.scrape import ScrapeReader
from agent.serving.metrics.readings import Readings
from agent.serving.queries import ServedQueries
from agent.simulation.whatif.recorder import GroupRecording
from analyzers.formatting import count_text

AHEAD_WORRIES_MS = 600_000
"""For how long on the event clock a record that is ahead of it is worth a word."""

PARTITIONS_NAMED = 5
"""How many partitions a sentence names."""

PLACED_GROUPS = 200
"""How many groups are looked at for whether they stand where they should."""


class AgentQueries(ServedQueries):
    """Answers of an agent that reads the topic; also what its observer compares the brokers' answers with
    (`agent.kafka.admin_api.comparing.MirrorQueries`)."""

    def __init__(
        self, parts: AgentParts, loop: ReaderLoop, scrape: ScrapeReader, others: Iterable[BackgroundThread] = ()
    ) -> None:
        """`others`: the threads that work beside the reader's."""
        self._parts, self._loop, self._scrape, self._others = parts, loop, scrape, others
        self._reader, self._state, self._lock, self._lags = parts.reader, parts.state, parts.lock, parts.lags
        self._shown, self._exports = parts.options.visibility, parts.options.exports
        self.shows_group = self._shown.shows_group
        """Whether a group of a name is asked for."""

    def of_cluster(self, cluster: str) -> ServedQueries | None:
        """Itself, by its own name."""
        return self if cluster == self._parts.options.settings.name else None

    @property
    def has_caught_up(self) -> bool:
        """Whether the topic was read to its end once."""
        return self._loop.has_caught_up

    def alive(self) -> Health:
        """Whether the process does its work at all: a restart would help if not."""
        if self._loop.ended_by is not None:
            return Health(False, f"the reader stopped: {self._loop.ended_by!r}")
        return Health(True, "reading")

    def ready(self) -> Health:
        """Whether answers are whole and fresh."""
        alive = self.alive()
        if not alive.ready:
            return alive
        if not self._loop.is_whole:
            return Health(False, self._to_go())
        if (problem := self._loop.standstill or self._parts.reading_problem) is not None:
            return Health(False, problem)
        return Health(True, "; ".join([self._source_note(), *self._warnings()]))

    def _to_go(self) -> str:
        if isinstance(self._reader, SampledReader):
            pending = self._reader.pending
            have = "has" if pending == 1 else "have"
            return f"{count_text(pending, 'group')} {have} yet to be looked at; {LIMITATIONS}"
        # Where reading has stopped it is not known how many records there are by now.
        if (error := self._reader.last_error) is None:
            rest = f"{count_text(sum(self._reader.behind_records.values()), 'record')} to go"
        else:
            rest = str(error)
        return "; ".join([f"catching up with the topic's end: {rest}", *self._warnings()])

    def _source_note(self) -> str:
        if isinstance(self._reader, SampledReader):
            withheld = [withheld_phrase(it)] if (it := len(self._reader.withheld)) else []
            nothing = [NOTHING_LISTED] if self._reader.lists_nothing else []
            return "; ".join([LIMITATIONS, missed_phrase(self._reader.sweep_ms), *withheld, *nothing])
        return CAUGHT_UP

    def _warnings(self) -> Iterator[str]:
        """What is not as it should be, while answers are whole and fresh all the same."""
        for thread in self._others:
            if (failure := thread.failure) is not None:
                yield f"the thread {thread.thread_name} has failed, and is tried again: {failure!r}"
        if self._exports is not None and (backing_up := self._exports.health()) is not None:
            yield backing_up
        if self._parts.checkpointer is not None and (failing := self._parts.checkpointer.reading().error) is not None:
            yield f"snapshots fail: {failing}"
        if self._parts.options.kubernetes is not None:
            yield from self._parts.options.kubernetes.worries()
        if (misplaced := self.misplaced_groups()) is not None:
            yield misplaced
        if (unread := self._unread_partitions()) is not None:
            yield unread
        if (ahead := self._records_ahead()) is not None:
            yield ahead
        if passed := self._passed_over():
            yield passed_over_text(passed)
        if hiding := self._hiding():
            with self._lock:
                mirrors = [self._state.mirror.partitions.get(number) for number in hiding]
                groups = sum(len(it.groups) for it in mirrors if it is not None)
            yield staleness.worry(hiding, groups)

    def _unread_partitions(self) -> str | None:
        """Where the topic got more partitions, and those to read were chosen of the ones that it had."""
        changed, chosen = self._loop.partitions_changed, self._parts.options.partitions
        if changed is None or chosen is None or callable(chosen):
            return None
        return (
            f"the topic has {changed.after} partitions, and had {changed.before}: groups that move, as the brokers"
            " restart, may be in partitions that are not read here, and seem empty; restart this agent then"
        )

    def _passed_over(self) -> list[PassedOver]:
        """What could not be read of the partitions that are read here, oldest first."""
        if isinstance(self._reader, SampledReader):
            return []
        here = self._reader.positions
        return [it for it in self._reader.quarantine.pieces if it.partition in here]

    def _quarantined(self) -> dict[int, int]:
        """By partition how many records could not be read."""
        out: dict[int, int] = {}
        for it in self._passed_over():
            out[it.partition] = out.get(it.partition, 0) + it.end - it.first
        return out

    def _hiding(self) -> OpenTransactions:
        """The transactions behind which groups are stale."""
        return {} if self._parts.transactions is None else self._parts.transactions.hiding()

    def _records_ahead(self) -> str | None:
        """Where records came lately whose times are ahead of what is written around them."""
        with self._lock:
            seen = self._state.diagnosis.records_ahead()
            clocks = {number: self._state.position(number).clock_ms for number in seen}
        recent = {
            number: it
            for number, it in seen.items()
            if it.last_ms is not None and clocks[number] - it.last_ms < AHEAD_WORRIES_MS
        }
        if not recent:
            return None
        places, many = ", ".join(map(str, islice(recent, PARTITIONS_NAMED))), len(recent) > PARTITIONS_NAMED
        records = sum(it.records for it in recent.values())
        farthest = duration(max(it.farthest_ms for it in recent.values()))
        return (
            f"timestamps of {count_text(records, 'record')} are up to {farthest} ahead of this machine's"
            f" clock or of the records around them (partitions {places}{', …' if many else ''}): they are"
            " passed over as a clock; see who writes to the topic"
        )

    def misplaced_groups(self) -> str | None:
        """Where groups stand in other partitions than the hash puts them by which those to read were chosen."""
        chosen = self._parts.options.partitioner
        if chosen is None or self._parts.options.settings.read.groups == ():
            return None
        if isinstance(self._reader, SampledReader):
            return None
        placement = observe_placement(islice(self._group_places(), PLACED_GROUPS), self._reader.partition_count)
        if placement.partitioner in (None, chosen) and not placement.is_by_neither:
            return None
        return (
            f"partitions were chosen by {chosen.name.capitalize()}'s hash of names, and {placement.describe()}: "
            "groups that were asked for may be missing; see --group-partitioner"
        )

    def _group_places(self) -> Iterator[tuple[str, int]]:
        with self._lock:
            mirrors = list(self._state.mirror.partitions.values())
        for mirror in mirrors:
            with self._lock:
                some = list(islice(mirror.groups, PLACED_GROUPS))
            yield from ((group, mirror.partition) for group in some)

    def status(self) -> JsonObject:
        """How it goes, for people and scripts: where each partition is, what is kept, what goes where."""
        reached, behind = self._reader.caught_up_partitions, self.records_behind()
        with self._lock:
            clocks = {number: self._state.position(number).clock_ms for number in self._state.partitions}
        kept = None if self._parts.checkpointer is None else self._parts.checkpointer.reading()
        log_id = self._reader.log_id
        kubernetes = self._parts.options.kubernetes
        transactions = {} if self._parts.transactions is None else self._parts.transactions.open()
        return {
            "cluster_id": None if log_id is None else log_id.cluster_id,
            "topic_id": None if log_id is None else log_id.topic_id,
            "partitions": {
                str(number): {
                    "next_offset": position,
                    "behind_records": behind.get(number),
                    "caught_up": reached.get(number, False),
                    "clock_ms": clocks.get(number),
                    **(
                        {"open_transaction": staleness.open_transaction_json(transactions[number])}
                        if number in transactions
                        else {}
                    ),
                }
                for number, position in sorted(self._reader.positions.items())
            },
            "snapshots": None if kept is None else kept._asdict(),
            "history": None if self._exports is None else [asdict(reading) for reading in self._exports.readings()],
            **({} if kubernetes is None else {"kubernetes": kubernetes.status()}),
            "worries": [*self._warnings()],
            "quarantined": [
                {
                    "partition": it.partition,
                    "first_offset": it.first,
                    "next_offset": it.end,
                    "reason": it.reason,
                    "message": f"{it.detail}; {it.advice}",
                }
                for it in self._passed_over()
            ],
            **self._sampling(),
        }

    def _sampling(self) -> JsonObject:
        """How groups are looked at, where they are."""
        reader = self._reader
        if not isinstance(reader, SampledReader):
            return {}
        return {
            "sampling": {
                "rebalances_every_ms": reader.sweep_ms,
                "states_every_ms": reader.list_ms,
                "requests_sent": reader.requests_sent,
                "pending_groups": reader.pending,
            }
        }

    def groups(self) -> list[JsonObject]:
        """Every group's row, by name."""
        from agent.presentation.json_views import group_json, with_quarantined, with_stale

        lags, hiding, passed = self._lags.totals(), self._hiding(), self._quarantined()
        views = sorted(self._views(), key=lambda view: view.group)
        rows = (with_stale(group_json(view, lags.get(view.group)), hiding) for view in views)
        return [with_quarantined(it, passed) for it in rows] if passed else [*rows]

    def unseen_reason(self, group: str) -> str | None:
        """Why a group may be there that is not known: its partition is not read here, an open transaction hides it,
        or the Admin API does not list such. None where nothing is so. Also of one that is not shown, so that this
        tells nothing of it."""
        if isinstance(self._reader, SampledReader):
            return UNLISTED
        hiding, read, count = self._hiding(), self._reader.positions, self._reader.partition_count
        if not hiding and len(read) == count:
            return None
        known = self._parts.options.partitioner
        if known is None:
            known = observe_placement(islice(self._group_places(), PLACED_GROUPS), count).partitioner
        for where in possible_partitions(group, count, known):
            if where not in read:
                return staleness.unread_clause(where)
            if where in hiding:
                return staleness.unseen_clause(where, hiding[where])
        return None

    def describe(self, group: str) -> JsonObject | None:
        """One group in full, or None."""
        from agent.presentation.json_views import (
            LagOf,
            describe_json,
            lag_json,
            share_offsets,
            unread_lag_json,
            with_quarantined,
            with_stale,
        )

        if not self.shows_group(group):
            return None
        with self._lock:
            mirror = self._state.mirror.mirror_of(group)
            found = self._state.mirror.find(group)
            shares = [] if found is None else self._lags.of_share_group(found[0].coordinator_partition, group)
            undated = set() if mirror is None else set(mirror.undated(group))
            ends = self._lags.ends()
            looked = {} if mirror is None else mirror.offsets.looked_offsets(group, ends.at_ms)
        if found is None:
            return None
        view, offsets = found
        shown = tuple(it for it in offsets if self._shown.shows_topic(it.topic)) + share_offsets(shares)
        lag: LagOf | None = None
        hiding, where = self._hiding(), view.coordinator_partition
        if self._lags.watcher is not None:
            is_known = not self._lags.is_hidden(where)
            lag = lag_json(ends, clock.now_ms(), looked=looked, shares=shares) if is_known else unread_lag_json
        form = with_quarantined(with_stale(describe_json(view, shown, lag), hiding), self._quarantined())
        for it in form["offsets"] if undated else ():
            if (it["topic"], it["partition"]) in undated:
                it["committed_ms"] = None
        return form

    def group_partitions(self) -> dict[str, int]:
        """The groups that are shown, and the partition each is in."""
        with self._lock:
            partitions = list(self._state.mirror.partitions.values())
        out: dict[str, int] = {}
        for mirror in partitions:
            with self._lock:
                out.update(
                    (group, mirror.partition)
                    for group in mirror.groups
                    if self.shows_group(group) and (group not in out or self._state.mirror.mirror_of(group) is mirror)
                )
        return out

    def view(self, group: str) -> GroupView | None:
        """One group that is shown, or None."""
        if not self.shows_group(group):
            return None
        with self._lock:
            return self._state.mirror.view(group)

    def read_partitions(self) -> Collection[int]:
        """The partitions of the topic that are read."""
        return self._reader.positions

    def records_behind(self) -> Mapping[int, int]:
        """For each partition that is read how many offsets its end lies ahead, as far as is known."""
        if not self._parts.is_sole_owner:
            return {}
        stopped = self._reader.is_stopped
        return {number: records for number, records in self._reader.behind_records.items() if not stopped(number)}

    def timeline(self, group: str, since_ms: int | None = None, until_ms: int | None = None) -> Timeline | None:
        """One group's events of a range (bounds included), and from when on these are all: None if from the log's
        beginning. None instead of both if there is no such group and nothing is remembered of one."""
        if not self.shows_group(group):
            return None
        with self._lock:
            kept, complete_since_ms = self._state.recent.timeline(group)
            is_known = self._state.mirror.mirror_of(group) is not None
        events = list(kept)
        return Timeline(events_within(events, since_ms, until_ms), complete_since_ms) if events or is_known else None

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[JsonObject]:
        """The newest event of each finding that was open in the range; without a range, of each that is open."""
        with self._lock:
            kept = self._state.recent.findings(group)
        # They may be of before the filters changed.
        shown = (it for it in kept if it["group"] is None or self.shows_group(it["group"]))
        return findings.select_findings(shown, since_ms, until_ms)

    def findings_complete_since_ms(self, group: str | None = None) -> int | None:
        """From when on all findings (of one group) are remembered; None: from the log's beginning."""
        with self._lock:
            return self._state.recent.findings_complete_since(group)

    def recording(self, group: str) -> GroupRecording | None:
        """A group's newest states, members and all; None where nothing is kept of it."""
        if not self.shows_group(group):
            return None
        with self._lock:
            found = self._parts.recordings.recording(group)
        session = self._parts.sessions.known.group_session(group, GroupType.CONSUMER)
        return None if found is None else replace(found, kip848_session=session)

    def lag_notes(self, group: str) -> Sequence[LagNote]:
        """How far a group was behind while its members changed, since the agent's start."""
        return self._parts.rollouts.lag_notes(group) if self.shows_group(group) else ()

    def event_totals(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Rebalances and departures of each group since the log begins, whatever their cause."""
        with self._lock:
            return self._state.counts.totals()

    def readings(self) -> Readings:
        """What a scrape needs."""
        return self._scrape.read()

    def _views(self) -> list[GroupView]:
        with self._lock:
            names = self._state.mirror.topic_names()
            partitions = list(self._state.mirror.partitions.values())
        views: list[GroupView] = []
        for mirror in partitions:
            with self._lock:
                views += (view for view in mirror.views(names) if self.shows_group(view.group))
        return one_of_each(views)


def passed_over_text(pieces: Sequence[PassedOver]) -> str:
    """That records were passed over, where, why, and what follows; of the newest of them in full."""
    partitions = sorted({it.partition for it in pieces})
    more = ", …" if len(partitions) > PARTITIONS_NAMED else ""
    places = ", ".join(map(str, partitions[:PARTITIONS_NAMED])) + more
    records = sum(it.end - it.first for it in pieces)
    what = "1 record could not be read and was" if records == 1 else f"{records} records could not be read and were"
    return (
        f"{what} passed over (partitions {places}): until their next records, groups there may stand otherwise than"
        f" is told; {pieces[-1]}"
    )
