"""Asks a source in rounds, and keeps what only several answers together tell.

Owns no thread and no clock: `now_ms` is given. One thread uses it. How much one round asks is bounded: the fleet is
two questions, and at most `MAX_TIMELINES` more for what the rebalances since the last round were about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from msgspec import Struct

from agent.cli.answers import Answers, SourceNotReady
from agent.cli.tui.changes import Change, changes_of_events, differences, rebalanced_groups
from agent.cli.tui.fleet import (
    RECENT_MS,
    Fleet,
    FleetRow,
    JsonView,
    Key,
    RecentRebalances,
    RowCache,
    build_fleet,
    display_text,
    key_of,
)
from agent.cli.tui.group_state import EventHistory, GroupState, LagHistory, PartitionMoves
from agent.core.queries import GroupQueries, JsonObject, Timeline
from agent.presentation.narrative.explain import StoryRequest
from agent.presentation.narrative.explain import explain as tell
from agent.presentation.narrative.phrases import may_have_rebalanced
from agent.presentation.narrative.words import times

MAX_TIMELINES = 25
"""Groups whose events one round asks for."""
LOOK_BACK_MS = 120_000
"""So much earlier than the last look events of a rebalance may be dated: brokers' clocks, and time to be read."""
MAX_CHANGES = 200
"""Happenings of one round that are told."""


class FleetUpdate(Struct, frozen=True):
    """A round: the fleet, what is new since the round before, and whether there was one."""

    fleet: Fleet
    changes: tuple[Change, ...]
    first: bool


class GroupExplanation(Struct, frozen=True):
    """The story of a group: headings, and the sentences under each. Without any, the group is gone."""

    key: Key
    sections: tuple[tuple[str, tuple[str, ...]], ...]
    at_ms: int


class Poller:
    """Rounds of questions."""

    def __init__(self, source: Answers, now_ms: Callable[[], int]) -> None:
        """`now_ms`: the clock on the wall; not asked for where the source's answers stand still."""
        self.source = source
        self._clock_ms = now_ms
        self._recent_rebalances = RecentRebalances()
        self._partial_until_ms = 0
        """Until then there may have been more rebalances of late than are known."""
        self._lag_history = LagHistory()
        self._known: RowCache = {}
        self._groups: list[JsonObject] = []
        self._before: Fleet | None = None
        self._opened: Key | None = None
        self._partition_moves = PartitionMoves()
        self._event_history = EventHistory()

    @property
    def now_ms(self) -> int:
        """What ages are counted from."""
        return self._clock_ms() if self.source.capabilities.live else self.source.now_ms

    def _of_cluster(self, key: Key) -> GroupQueries:
        """Who answers for a row's cluster."""
        return self.source if key.cluster is None else self.source.of_cluster(key.cluster) or self.source

    def poll_fleet(self) -> FleetUpdate:
        """Ask for the fleet. Raises `SourceAway`."""
        health = self.source.ready()
        if not health.ready and self._before is None and self.source.capabilities.live:
            raise SourceNotReady(health.reason)
        groups, findings = self.source.groups(), self.source.findings()
        if not health.ready:
            groups, findings = self._with_untold(groups, findings)
        self._groups = groups
        now_ms = self.now_ms
        counts: dict[Key, int] = {}
        lags: dict[Key, int | None] = {}
        for form in groups:
            key = Key(form.get("cluster"), form["group"])
            if isinstance(count := form.get("rebalances"), int):
                counts[key] = count
            lag = form.get("lag")
            lags[key] = lag if isinstance(lag, int) else None
        self._lag_history.record(lags, now_ms)
        before = self._before
        news: list[Change] = []
        if before is None:
            news = self._seed(build_fleet(groups, findings, {}, now_ms), groups)
        after = build_fleet(
            groups, findings, self._recent_rebalances.update(counts, now_ms), now_ms, health, self._known
        )
        self._before = after = replace(after, is_recent_partial=now_ms < self._partial_until_ms)
        if before is not None:
            news = [*self._rebalances(before, after), *differences(before, after)]
        news.sort(key=lambda it: it.at_ms)
        return FleetUpdate(after, tuple(news[-MAX_CHANGES:]), before is None)

    def _with_untold(
        self, groups: list[JsonObject], findings: list[JsonObject]
    ) -> tuple[list[JsonObject], list[JsonObject]]:
        """With what was known of clusters of which nothing is told, as while one is read anew: it is not gone."""
        untold = {it.get("cluster") for it in self._groups} - {None, *(it.get("cluster") for it in groups)}
        opened = () if self._before is None else self._before.findings
        return (
            [*groups, *(it for it in self._groups if it.get("cluster") in untold)],
            [*findings, *({**it} for it in opened if it.get("cluster") in untold)],
        )

    def _seed(self, now: Fleet, groups: Sequence[JsonView]) -> list[Change]:
        """What happened shortly before the first look, of those groups where something did."""
        since_ms = max(now.at_ms - RECENT_MS, 0)  # what has no time did not happen shortly before
        busy = [now.by_key[key_of(form)] for form in groups if may_have_rebalanced(form, since_ms)]
        busy.sort(key=lambda row: -(row.state_since_ms or 0))
        out = []
        is_whole = len(busy) <= MAX_TIMELINES
        for row in busy[:MAX_TIMELINES]:
            past, complete_since_ms = self._timeline(row.key, since_ms)
            is_whole = is_whole and (complete_since_ms or 0) <= since_ms
            self._recent_rebalances.seed(row.key, [event["at_ms"] for event in past if event["type"] == "rebalance"])
            out += changes_of_events(row.key, row.name, past)
        if not is_whole:
            self._partial_until_ms = now.at_ms + RECENT_MS
        return out

    def _rebalances(self, before: Fleet, after: Fleet) -> list[Change]:
        out: list[Change] = []
        found = rebalanced_groups(before, after)
        for row, more in found[:MAX_TIMELINES]:
            told = changes_of_events(
                row.key, row.name, self._timeline(row.key, before.at_ms - LOOK_BACK_MS).events, more
            )
            out += told or _unexplained_rebalance(row, more, before)
        # Of more than that at once only how often is said.
        return [
            *out,
            *(it for row, more in found[MAX_TIMELINES:] for it in _unexplained_rebalance(row, more, before)),
        ]

    def _timeline(self, key: Key, since_ms: int) -> Timeline:
        assert key.group is not None, "a group's row"
        return self._of_cluster(key).timeline(key.group, since_ms) or Timeline([])

    def poll_group(self, key: Key) -> GroupState:
        """Ask for one group. Raises `SourceAway`. What moved is known from the second time on."""
        assert key.group is not None, "a group's row"
        if key != self._opened:
            self._opened, self._partition_moves, self._event_history = key, PartitionMoves(), EventHistory()
        form = self._of_cluster(key).describe(key.group)
        past = self._of_cluster(key).timeline(key.group, self._event_history.since_ms(self.now_ms))
        found = self._of_cluster(key).findings(group=key.group)
        if past is not None:
            self._event_history.add(past.events, past.complete_since_ms)
        if form is not None:
            self._partition_moves.update(form["members"], form["generation"])
        return GroupState(
            key,
            form,
            self._event_history.entries,
            tuple(found),
            self._partition_moves.moved,
            self._partition_moves.known,
            self._lag_history.points(key),
            self.now_ms,
            self._event_history.complete_since_ms,
        )

    def explain(self, key: Key) -> GroupExplanation:
        """The whole story of a group, as far as events are kept. Raises `SourceAway`."""
        assert key.group is not None, "a group's row"
        now_ms = self.now_ms
        past = self._of_cluster(key).timeline(key.group)
        if past is None:
            return GroupExplanation(key, (), now_ms)
        is_live = self.source.capabilities.live
        asked = StoryRequest(
            key.group, now_ms, is_live=is_live, complete_since_ms=past.complete_since_ms, of_agent=is_live
        )
        found = self._of_cluster(key).findings(0, group=key.group)
        form = self._of_cluster(key).describe(key.group)
        story = tell(asked, past.events, found, form)
        sections = tuple(
            (display_text(title), tuple(display_text(it, 4_000) for it in texts)) for title, texts in story.sections()
        )
        return GroupExplanation(key, sections, now_ms)


def _unexplained_rebalance(row: FleetRow, more: int, before: Fleet) -> list[Change]:
    if row.key not in before.by_key:
        # That it appeared is said already.
        return []
    generation = "" if row.generation is None else f", generation {row.generation}"
    what = f"rebalanced {times(more)}; now {row.state}{generation}"
    return [Change(row.state_since_ms or before.at_ms, row.key, row.name, what)]
