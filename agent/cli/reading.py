"""Answers of what is read here, files or a broker's topic, to its end or up to a time."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, NamedTuple, TypedDict

import click

from agent.cli.answers import Answers, LastMembership
from agent.cli.output import warn
from agent.cli.text import iso_time
from agent.common.clock import now_ms
from agent.common.timespec import TimeSpec
from agent.core.diagnosis.cluster import AnalyzerSelection
from agent.core.inference.external_evidence import CombinedEvidence, EvidenceSource, KnownSessions
from agent.core.inference.session_settings import session_settings
from agent.core.protocol.states import GroupType
from agent.core.queries import Capabilities, JsonObject, Timeline
from agent.core.read_limits import ReadLimit, UntilTime
from agent.core.shadow.views import CommittedOffset
from agent.core.share_positions import SharePosition
from agent.presentation.json_views import LagOf
from agent.runtime.offline import OfflineGroups, is_single_use, load, load_topic, newest_timestamp_ms
from agent.simulation.whatif.recorder import GroupRecorder, GroupRecording


class Reading(TypedDict):
    """What a reading is for. `group`: the only one whose events are kept, where they are (`keep_events`); `chosen`
    analyzers look for findings; `recorder` follows its group, and `witness` testifies to it."""

    group: str | None
    keep_events: bool
    chosen: AnalyzerSelection
    recorder: GroupRecorder | None
    witness: EvidenceSource | None


def with_sessions(
    witness: EvidenceSource | None,
    told: tuple[tuple[str, str], ...],
    conf: dict[str, str] | None,
    group: str | None = None,
) -> EvidenceSource | None:
    """What `witness` testifies, and what is known of the sessions that brokers set: as they say themselves, where
    there are some (`conf`), and as was `told` by `--broker-config`. Of a `group` its own settings are asked for,
    too."""
    known = KnownSessions(session_settings(dict(told)))
    if conf is not None:
        from confluent_kafka import KafkaException

        from agent.kafka.admin_api.session_settings import fetch_group_settings, fetch_session_settings

        with suppress(KafkaException):  # they are taken to be the default then
            known.of_brokers = {**fetch_session_settings(conf), **known.of_brokers}
        if group is not None:
            with suppress(KafkaException):  # and then those of the brokers
                own = fetch_group_settings(conf, group)
                known.of_groups = {(group, group_type): it for group_type, it in own.items()}
    return known if witness is None else CombinedEvidence([witness, known])


def answers_of_files(path: str, until: TimeSpec | None, reading: Reading, workers: int | None) -> Answers:
    """Of files, to their end or as they were at a time (`until`), read by so many processes (`workers`)."""
    once = is_single_use(path)
    until_ms = None
    if until is not None:
        if until.at_ms is None and once:
            raise click.UsageError(
                f"--until: expected a time, got a duration: it is counted back from the newest record, and {path} "
                "can be read only once"
            )
        until_ms = until.before(newest_timestamp_ms(path) if until.at_ms is None else 0)
    loaded = load([path], on_problem=warn, end=_end(until_ms), workers=workers, **reading)
    if until is not None and not loaded.last_ms:
        raise click.UsageError(f"--until: expected records with times, got none {loaded.where}")

    def again(end: ReadLimit) -> OfflineGroups:
        # What is wrong with the data was said when it was read first.
        return load([path], on_problem=lambda _: None, keep_events=False, end=end, workers=workers)

    return ReadAnswers(
        loaded,
        live=False,
        until_ms=until_ms,
        read_again=None if once else again,
        recorder=reading["recorder"],
    )


def answers_of_brokers(
    conf: dict[str, str], until: TimeSpec | None, reading: Reading, partitioner: str, *, lag: bool = False
) -> Answers:
    """The same of a broker's topic: of the group's partition, where only one group is asked for, found by the
    `--group-partitioner`. `lag`: with where what it has committed ends now."""
    from agent.kafka.source.brokers import require_topic

    require_topic(conf)
    group, partitions = reading["group"], None
    if group is not None:
        partitions = partitions_of_group(conf, partitioner, group)
    until_ms = None if until is None else until.before(now_ms())
    loaded = load_topic(conf, partitions, on_problem=warn, end=_end(until_ms), **reading)
    loaded.advance(now_ms())
    if until_ms is not None:
        # What was written before a transaction began is known.
        loaded.held_back = {it: of for it, of in loaded.held_back.items() if of.since_ms < until_ms}

    def again(end: ReadLimit) -> OfflineGroups:
        return load_topic(conf, partitions, end=end)

    def ask_lag(group: str) -> AskedLag:
        from agent.kafka.lag.watch import fetch_end_offsets
        from agent.presentation.json_views import lag_json, share_offsets

        found = loaded.mirror.find(group)
        if found is None:
            return AskedLag(None)
        shares = _share_positions(conf, loaded, group) if found[0].group_type == GroupType.SHARE else []
        more = share_offsets(shares)
        ends = fetch_end_offsets(conf, found[1] + more)
        return AskedLag(lag_json(ends, now_ms(), are_newer=True, shares=shares), more)

    asking = ask_lag if lag and until is None else None
    return ReadAnswers(
        loaded,
        live=True,
        until_ms=until_ms,
        read_again=again,
        lag=asking,
        recorder=reading["recorder"],
    )


class AskedLag(NamedTuple):
    """What is known of a group's lag, and the positions that the topic does not have: a share group's."""

    of: LagOf | None
    shares: tuple[CommittedOffset, ...] = ()


def _share_positions(conf: dict[str, str], loaded: OfflineGroups, group: str) -> list[SharePosition]:
    from agent.kafka.lag.share_state import fetch_share_positions
    from agent.kafka.source.errors import SourceDenied

    try:
        return fetch_share_positions(conf, group, loaded.mirror.topic_names())
    except SourceDenied as error:
        warn(f"(no positions of a share group: {error})")
        return []


def partitions_of_group(conf: dict[str, str], partitioner: str, group: str) -> list[int]:
    """The partitions of the topic that hold a group: more than one where it is not known by which hash."""
    from agent.config.settings import PartitionerChoice
    from agent.kafka.source.group_locator import locate_groups

    return locate_groups(conf, PartitionerChoice(partitioner)).partitions_of([group])


def _end(until_ms: int | None) -> ReadLimit | None:
    return None if until_ms is None else UntilTime(until_ms)


class ReadAnswers(Answers):
    """Answers of what was read here: files, or the topic to its end."""

    capabilities: Capabilities = Capabilities()
    now_ms: int = 0
    """When a broker was read to its end, or the newest record of files."""
    as_of_ms: int | None = None

    def __init__(
        self,
        loaded: OfflineGroups,
        *,
        live: bool,
        until_ms: int | None = None,
        read_again: Callable[[ReadLimit], OfflineGroups] | None = None,
        lag: Callable[[str], AskedLag] | None = None,
        recorder: GroupRecorder | None = None,
    ) -> None:
        """`until_ms`: what came later was not applied. `read_again` reads the same once more, where that can be done.
        `lag` asks for a group's. `recorder` has followed what was read."""
        self.capabilities = Capabilities(live=live, has_all_events=True)
        self.now_ms = now_ms() if live else loaded.last_ms
        self.as_of_ms = None if until_ms is None else min(until_ms, self.now_ms)
        self.where = loaded.where if until_ms is None else f"{loaded.where} as of {iso_time(self.as_of_ms)}"
        self._loaded, self._again, self._lag, self._recorder = loaded, read_again, lag, recorder

    @property
    def is_incomplete(self) -> bool:
        """Whether records of the topic were passed over."""
        return self._loaded.is_incomplete

    def groups(self) -> list[JsonObject]:
        """Every group's row."""
        return self._loaded.groups()

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[JsonObject]:
        """What the analyzers found that were asked for."""
        return self._loaded.findings(since_ms, until_ms, group)

    def all_events(self, groups: Collection[str] = ()) -> list[JsonObject]:
        """The history, where it was asked for."""
        return [event for event in self._loaded.events() if not groups or event["group"] in groups]

    def report(self, say: Callable[[str], None]) -> bool:
        """Say what was wrong with the data; whether anything was."""
        return self._loaded.report(say)

    def describe(self, group: str) -> dict[str, Any] | None:
        """With lag, where that is asked for."""
        lag = AskedLag(None) if self._lag is None else self._lag(group)
        return self._loaded.describe(group, lag.of, lag.shares)

    def recording(self, group: str) -> GroupRecording | None:
        """Where a recorder was given."""
        return None if self._recorder is None else self._recorder.of(group).recording()

    def last_with_members(self, group: str) -> LastMembership | None:
        """Reads once more, up to where the last members went."""
        left = self._loaded.last_departure
        if left is None:
            return None
        as_of_ms = left.at.timestamp_ms - 1 if left.at.timestamp_ms > 0 else None
        if self._again is None:
            return LastMembership(as_of_ms, None)
        form = self._again(left).describe(group)
        return LastMembership(as_of_ms, form) if form is not None and form["members"] else None

    def timeline(self, group: str, since_ms: int | None = None, until_ms: int | None = None) -> Timeline | None:
        """All that was read of it."""
        events = self._loaded.timeline(group, since_ms, until_ms)
        return None if events is None else Timeline(events)
