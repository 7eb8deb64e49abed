"""Asks a source in rounds, and keeps what only several answers together tell.

Owns no thread and no clock: `now_ms` is given. One thread uses it. How much one round asks is bounded: the fleet is
two questions, and at most `MOST_PASTS` more for what the rebalances since the last round were about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent.story.explain import Asked
from agent.story.explain import explain as tell
from agent.story.words import times
from agent.watching.changes import Happening, differences, of_events, rebalanced
from agent.watching.group import History, Lags, Moves, Watched
from agent.watching.model import LATELY_MS, Fleet, Key, Known, Late, Row, fleet, shown
from agent.watching.source import Form, NotReady, Source

MOST_PASTS = 25
"""Groups whose events one round asks for."""
BACK_MS = 120_000
"""So much earlier than the last look events of a rebalance may be dated: brokers' clocks, and time to be read."""
MOST_NEWS = 200
"""Happenings of one round that are told."""


@dataclass(frozen=True, slots=True)
class Told:
    """A round: the fleet, what is new since the round before, and whether there was one."""

    fleet: Fleet
    news: tuple[Happening, ...]
    first: bool


@dataclass(frozen=True, slots=True)
class Explained:
    """The story of a group: headings, and the sentences under each. Without any, the group is gone."""

    key: Key
    sections: tuple[tuple[str, tuple[str, ...]], ...]
    at_ms: int


class Asker:
    """Rounds of questions."""

    def __init__(self, source: Source, now_ms: Callable[[], int]) -> None:
        """`now_ms`: the clock on the wall; not asked for where the source's answers stand still."""
        self.source = source
        self._wall_ms = now_ms
        self._late = Late()
        self._lags = Lags()
        self._known: Known = {}
        self._before: Fleet | None = None
        self._opened: Key | None = None
        self._moves = Moves()
        self._history = History()

    @property
    def now_ms(self) -> int:
        """What ages are counted from."""
        return self._wall_ms() if self.source.live else self.source.now_ms

    def round(self) -> Told:
        """Ask for the fleet. Raises `Away`."""
        health = self.source.health()
        if not health.ready and self._before is None and self.source.live:
            raise NotReady(health.reason)
        groups = self.source.groups()
        findings = self.source.findings()
        now_ms = self.now_ms
        counts: dict[Key, int] = {}
        lags: dict[Key, int | None] = {}
        for form in groups:
            key = Key(form.get("cluster"), form["group"])
            if isinstance(count := form.get("rebalances"), int):
                counts[key] = count
            lag = form.get("lag")
            lags[key] = lag if isinstance(lag, int) else None
        self._lags.look(lags, now_ms)
        before = self._before
        news: list[Happening] = []
        if before is None:
            news = self._seed(fleet(groups, findings, {}, now_ms))
        self._before = after = fleet(groups, findings, self._late.look(counts, now_ms), now_ms, health, self._known)
        if before is not None:
            news = [*self._rebalances(before, after), *differences(before, after)]
        news.sort(key=lambda it: it.at_ms)
        return Told(after, tuple(news[-MOST_NEWS:]), before is None)

    def _seed(self, now: Fleet) -> list[Happening]:
        """What happened shortly before the first look, of those groups where something did."""
        since_ms = now.at_ms - LATELY_MS
        busy = [row for row in now.rows if row.key.group is not None and (row.state_since_ms or 0) >= since_ms]
        busy.sort(key=lambda row: -(row.state_since_ms or 0))
        out = []
        for row in busy[:MOST_PASTS]:
            past = self._past(row.key, since_ms)
            self._late.seed(row.key, [event["at_ms"] for event in past if event["type"] == "rebalance"])
            out += of_events(row.key, row.name, past)
        return out

    def _rebalances(self, before: Fleet, after: Fleet) -> list[Happening]:
        out: list[Happening] = []
        found = rebalanced(before, after)
        for row, more in found[:MOST_PASTS]:
            told = of_events(row.key, row.name, self._past(row.key, before.at_ms - BACK_MS), more)
            out += told or _bare(row, more, before)
        # Of more than that at once only how often is said.
        return [*out, *(it for row, more in found[MOST_PASTS:] for it in _bare(row, more, before))]

    def _past(self, key: Key, since_ms: int) -> list[Form]:
        assert key.group is not None, "a group's row"
        past = self.source.past(key.group, since_ms, cluster=key.cluster)
        return [] if past is None else past.events

    def open(self, key: Key) -> Watched:
        """Ask for one group. Raises `Away`. What moved is known from the second time on."""
        assert key.group is not None, "a group's row"
        if key != self._opened:
            self._opened, self._moves, self._history = key, Moves(), History()
        form = self.source.describe(key.group, cluster=key.cluster)
        past = self.source.past(key.group, self._history.since_ms, cluster=key.cluster)
        found = self.source.findings(group=key.group)
        if past is not None:
            self._history.add(past.events, past.complete_since_ms)
        if form is not None:
            self._moves.look(form["members"], form["generation"])
        return Watched(
            key,
            form,
            self._history.entries,
            tuple(event for event in found if key.cluster in (None, event.get("cluster"))),
            self._moves.moved,
            self._moves.known,
            self._lags.of(key),
            self.now_ms,
            self._history.complete_since_ms,
        )

    def explain(self, key: Key) -> Explained:
        """The whole story of a group, as far as events are kept. Raises `Away`."""
        assert key.group is not None, "a group's row"
        now_ms = self.now_ms
        past = self.source.past(key.group, cluster=key.cluster)
        if past is None:
            return Explained(key, (), now_ms)
        asked = Asked(key.group, now_ms, live=self.source.live, complete_since_ms=past.complete_since_ms)
        found = self.source.findings(0, group=key.group)
        form = self.source.describe(key.group, cluster=key.cluster)
        story = tell(asked, past.events, found, form)
        sections = tuple((shown(title), tuple(shown(it, 4_000) for it in texts)) for title, texts in story.sections())
        return Explained(key, sections, now_ms)


def _bare(row: Row, more: int, before: Fleet) -> list[Happening]:
    if row.key not in before.by_key:
        # That it appeared is said already.
        return []
    what = f"rebalanced {times(more)}; now {row.state}, generation {row.generation}"
    return [Happening(row.state_since_ms or before.at_ms, row.key, row.name, what)]
