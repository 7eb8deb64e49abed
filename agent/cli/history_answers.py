"""Answers of history tables: what happened, as the events that were kept tell it. Nothing is replayed."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import click
import pyarrow as pa

from agent.cli.answers import Answers
from agent.cli.output import warn
from agent.common.clock import now_ms
from agent.common.sanitize import printable
from agent.core.events.events import SAMPLE
from agent.core.queries import Capabilities, JsonObject, Timeline
from agent.core.shadow.transitions import SAMPLED_FIELDS
from agent.history.engine import DEFAULT_MEMORY_MB, database, one_row, quoted
from agent.history.errors import NO_HISTORY, HistoryError
from agent.history.input_schema import check_newest
from agent.history.opening import Bounds, View, clocks_of, open_tables
from agent.history.planning import no_events
from agent.history.report.queries.views import LAST_MS
from agent.history.rolling import AHEAD_MS
from agent.history.rollup_reducer import TOLD, TOLD_AGAIN_MS, Rank, rank
from agent.persistence.export.arrow import HISTORY, date_of
from agent.persistence.export.columns import (
    COLUMNS,
    ESCAPED,
    EXTRA,
    ORIGINS,
    column_text,
    known_origins,
    row_to_event,
    text_of_column,
)
from agent.persistence.export.log_clock import known_until
from agent.presentation.narrative import findings
from agent.presentation.narrative.events import is_story_event

PORTION = 1_000
"""Rows at a time."""


@contextmanager
def answers_of_history(path: str, until_ms: int | None) -> Iterator[HistoryAnswers]:
    """Of a table of history, of days up to a time. Raises `HistoryError`."""
    days = Bounds(None, None if until_ms is None else date_of(min(until_ms, LAST_MS)))
    view = View("history", None, NO_HISTORY, needed=NEEDED, compared=COMPARED)
    clock_ms = max(known_until(clocks_of(path, warn)).values(), default=0)
    if until_ms is not None:
        clock_ms = min(clock_ms, until_ms)
    with database(DEFAULT_MEMORY_MB, keeps_order=True) as db, open_tables(db, [path], {"": view}, days):
        yield HistoryAnswers(db, path, clock_ms, days.last)


NEEDED = (
    *(it.name for it in COLUMNS if it.name not in (*SAMPLED_FIELDS, ORIGINS) and it.types != (SAMPLE,)),
    *(EXTRA, ESCAPED),
)
"""Without these, events are told wrong or not at all. What came later is none of them, nor what only samples have:
their events have not what their file has no column for."""

COMPARED = pa.schema(
    HISTORY.field(name) for name in ("schema", "event_id", "type", "cluster", "group", "at_ms", ESCAPED)
)
"""What is asked of the tables in SQL."""

_HAPPENED = f"(type IS DISTINCT FROM '{SAMPLE}')"
"""A sample tells how a group stood, every minute or so: nothing happened."""


def _of_groups(groups: Collection[str]) -> tuple[str, dict[str, Any]]:
    """Whether an event is of one of the groups, as SQL and its parameters. In rows that are marked `escaped` names
    stand otherwise; that both forms are told at first lets files be passed over that have neither."""
    forms = [(escaped, True) for escaped, _ in map(column_text, groups)]
    forms += [(group, False) for group in groups if column_text(group)[1]]
    names = {
        marked: ", ".join(f"$group{at}" for at, it in enumerate(forms) if it[1] is marked) for marked in (True, False)
    }
    every = ", ".join(filter(None, names.values()))
    return (
        f'("group" IN ({every}) AND CASE WHEN {ESCAPED} THEN "group" IN ({names[True]})'
        f' ELSE "group" IN ({names[False] or "NULL"}) END)',
        {f"group{at}": text for at, (text, _) in enumerate(forms)},
    )


class HistoryAnswers(Answers):
    """How groups stand is not in it: `describe` has nothing, and `groups` no rows."""

    capabilities: Capabilities = Capabilities(live=False, has_all_events=True, has_state=False)
    now_ms: int = 0
    """Up to when time is known to have passed: the newest event's, or later, as the history's writers told. Not after
    the time of this machine."""

    def __init__(self, db: Any, path: str, clock_ms: int, last_day: str | None) -> None:
        # A group whose first event is of a later day is not known: what was not read is not denied.
        self.where = f"in {path}" + ("" if last_day is None else f", which was read up to {last_day}")
        self._db = db
        self._columns = [name for name in db.table("history").columns if name in HISTORY.names]
        if not self._columns:
            raise no_events([path])
        here_ms = now_ms()
        # One event dated years ahead would end a history of last year today, and `--since 2h` find nothing in it.
        known = f"coalesce(max(at_ms) FILTER (at_ms <= {here_ms + AHEAD_MS}), 0) AS at_ms"
        newest = one_row(db, f'SELECT {known}, max("schema") AS "schema" FROM history')
        check_newest(newest["schema"])
        self.now_ms = min(max(newest["at_ms"], clock_ms), here_ms)

    def groups(self) -> list[JsonObject]:
        """How groups stand is not known."""
        return []

    def group_names(self) -> list[str]:
        """Those that anything happened to."""
        asked = f'SELECT DISTINCT "group", {ESCAPED} FROM history WHERE "group" IS NOT NULL'
        return sorted({text_of_column(name, escaped=escaped) for name, escaped in self._db.execute(asked).fetchall()})

    def describe(self, group: str) -> JsonObject | None:
        """How a group stands is not known."""
        return None

    def timeline(self, group: str, since_ms: int | None = None, until_ms: int | None = None) -> Timeline | None:
        """What was kept of it. Raises `click.UsageError` where several clusters have a group of that name."""
        of_group, names = _of_groups([group])
        self._check_one_cluster(of_group, names)
        if not self._db.execute(f"SELECT 1 FROM history WHERE {of_group} LIMIT 1", names).fetchall():
            return None
        bounds = {"since": since_ms, "until": until_ms}
        return Timeline(
            self._events(
                f"{of_group} AND {_HAPPENED}"
                " AND at_ms >= coalesce($since, at_ms) AND at_ms <= coalesce($until, at_ms)",
                {**names, **bounds},
            )
        )

    def samples(self, group: str) -> list[JsonObject]:
        """As often as the agent was told to write them."""
        of_group, names = _of_groups([group])
        return self._events(f"{of_group} AND NOT {_HAPPENED}", names)

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[JsonObject]:
        """As they were found when the events were made."""
        of_group, names = ("true", dict[str, Any]()) if group is None else _of_groups([group])
        found = self._events(f"type = 'finding' AND {of_group}", names)
        return findings.select_findings(found, since_ms, until_ms, group)

    def all_events(self, groups: Collection[str] = ()) -> list[JsonObject]:
        """Every event but samples; of a group that nothing else tells of the newest, or nobody would know of it.

        Raises `click.UsageError` where several clusters have a group of one name that is asked for.
        """
        asked, named = '"group" IS NOT NULL', dict[str, Any]()
        wanted = "true"
        if groups:
            asked, named = _of_groups(groups)
            wanted = asked
        self._check_one_cluster(asked, named)
        only = (
            'SELECT arg_max(event_id, at_ms) FROM history GROUP BY "group",'
            f" {ESCAPED} HAVING NOT bool_or({_HAPPENED})"
        )
        return self._events(f"{wanted} AND ({_HAPPENED} OR event_id IN ({only}))", named)

    def _check_one_cluster(self, condition: str, parameters: dict[str, Any]) -> None:
        asked = f'SELECT DISTINCT "group", cluster, {ESCAPED} FROM history WHERE {condition}'
        clusters: dict[str, set[str | None]] = {}
        for group, cluster, escaped in self._db.execute(asked, parameters).fetchall():
            name = None if cluster is None else text_of_column(cluster, escaped=escaped)
            clusters.setdefault(text_of_column(group, escaped=escaped), set()).add(name)
        if several := min((it for it, of_group in clusters.items() if len(of_group) > 1), default=None):
            one, other = sorted(clusters[several], key=str)[:2]
            raise click.UsageError(
                printable(
                    f"several clusters have a group {several!r} {self.where}, {one!r} and {other!r}: expected"
                    " tables of one"
                )
            )

    def _events(self, condition: str, parameters: dict[str, Any]) -> list[JsonObject]:
        """Events in order, each once."""
        columns = ", ".join(map(quoted, self._columns))
        asked = self._db.sql(
            f"SELECT {columns} FROM history WHERE ({condition}) AND at_ms IS NOT NULL AND event_id IS NOT NULL",
            params=parameters,
        )
        # What one record shows stays in the order in which it was written. Where it was written again, in another
        # file, the longest of its listings has the order of all.
        rows = (self._event(row) for batch in asked.to_arrow_reader(PORTION) for row in batch.to_pylist())
        listings: dict[tuple[int, int, int], list[list[JsonObject]]] = {}
        for place, listing in groupby(rows, key=_place):
            listings.setdefault(place, []).append(list(listing))
        events: dict[tuple[str, int | None], JsonObject] = {}
        for place in sorted(listings):
            for listing_of_file in sorted(listings[place], key=len, reverse=True):
                for event in listing_of_file:
                    key = event["event_id"], event["at_ms"] if event["offset"] is None else None
                    known = events.setdefault(key, event)
                    # One that was told again after a crash may have been told with less.
                    if known != event and _rank(known) < _rank(event):
                        events[key] = event
        # Two tellings may be of different times.
        return list(_of_first_times(sorted(events.values(), key=_place)))

    def _event(self, row: JsonObject) -> JsonObject:
        where = f"event {row['event_id']!r} {self.where}: expected an event as kshadow writes it"
        try:
            event = row_to_event(row)
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise HistoryError(f"{where}, its columns of JSON hold something else: {error}") from None
        if not is_story_event(event):
            raise HistoryError(f"{where}, its columns hold something else")
        return event


def _of_first_times(events: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Without what looks showed and was told again, as rollups have it: an agent that goes on from a snapshot sees it
    anew, at another time."""
    told: dict[str, int] = {}
    for event in events:
        if event["offset"] is None:
            name, at_ms = event["event_id"], event["at_ms"]
            last_ms, told[name] = told.get(name), at_ms
            if last_ms is not None and at_ms - last_ms <= TOLD_AGAIN_MS:
                continue
        yield event


def _rank(event: JsonObject) -> tuple[Rank, str]:
    """As rollups have it, and by all that is not in them."""
    of_rollups = rank([event.get(name) for name in TOLD], event.get("confidence"), known_origins(event))
    return of_rollups, json.dumps(event, sort_keys=True)


def _place(event: JsonObject) -> tuple[int, int, int]:
    partition, offset = event["partition"], event["offset"]
    return event["at_ms"], -1 if partition is None else partition, -1 if offset is None else offset
