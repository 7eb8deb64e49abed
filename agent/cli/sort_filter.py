"""Which rows are shown, and in which order: `--sort-by` and the filters that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import click

from agent.cli.options import Decorator, option
from agent.cli.output import warn
from agent.cli.tables import Column
from agent.config.options import Parsed
from agent.core.causes import Cause

Row = Mapping[str, Any]
T = TypeVar("T", bound=Row)

STATES = (
    "Empty",
    "Stable",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
)
TYPES = ("classic", "connect", "consumer", "share", "streams")
EVENTS = (
    "group_created",
    "rebalance",
    "member_joined",
    "member_left",
    "static_member_replaced",
    "assignment_changed",
    "group_emptied",
    "group_deleted",
    "offsets_deleted",
    "finding",
)
CAUSES = tuple(map(str, Cause))


def sort_option(columns: Mapping[str, Column], shape: str) -> Decorator:
    """By columns of a command's table, and fields of what it prints otherwise, which that schema describes."""

    def check(text: str) -> None:
        name = _key(text)[0]
        known = {*_headings(columns), *_fields_of(shape)}
        if _normalized(name) not in known:
            near = get_close_matches(_normalized(name), known, n=1, cutoff=0.6)
            there = f": did you mean {near[0]!r}?" if near else f" {', '.join(columns)}"
            raise ValueError(f"{name!r} is not one of the columns{there}")

    return option(
        "--sort-by",
        type=Parsed("COLUMN[:desc]", check, keeps_text=True),
        multiple=True,
        help="Sort by this column, or field of -o json; rows without a value come last. Repeatable; the first has "
        "priority.",
    )


match_option: Decorator = option(
    "--match", metavar="GLOB", multiple=True, help="Only groups whose names match, such as 'payments-*'. Repeatable."
)
state_option: Decorator = option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    metavar="STATE",
    multiple=True,
    help=f"Only groups in this state: {', '.join(STATES)}. Repeatable.",
)
type_option: Decorator = option(
    "--type", "types", type=click.Choice(TYPES), multiple=True, help="Only groups of this type. Repeatable."
)
topic_option: Decorator = option(
    "--topic", "topics", metavar="GLOB", multiple=True, help="Only topics whose names match, or are it. Repeatable."
)
event_option: Decorator = option(
    "--event",
    "event_types",
    type=click.Choice(EVENTS),
    metavar="TYPE",
    multiple=True,
    help=f"Only events of this type: {', '.join(EVENTS)}. Repeatable.",
)
cause_option: Decorator = option(
    "--cause",
    "causes",
    type=click.Choice(CAUSES),
    metavar="CAUSE",
    multiple=True,
    help=f"Only rebalances and departures with this cause: {', '.join(CAUSES)}. Repeatable.",
)


def matches_any(name: str, globs: Sequence[str]) -> bool:
    """Whether a name is one of those asked for; every one is where nothing is asked for."""
    return not globs or any(name == glob or fnmatchcase(name, glob) for glob in globs)


def event_matches(event: Row, types: Sequence[str], causes: Sequence[str]) -> bool:
    """Whether an event is of the types, and about the causes, that are asked for."""
    if types and event["type"] not in types:
        return False
    if not causes:
        return True
    member = event.get("member")
    said = [
        *(event.get("causes") or ()),
        event.get("cause"),
        member.get("cause") if isinstance(member, dict) else None,
    ]
    return any(cause in causes for cause in said)


def is_about(event: Row, groups: Sequence[str], match: Sequence[str]) -> bool:
    """Whether an event is about one of the groups, and one whose name matches, that are asked for."""
    group = event["group"]
    return (not groups or group in groups) and (not match or (group is not None and matches_any(group, match)))


def sort_rows(
    rows: Iterable[T],
    keys: Sequence[str],
    columns: Mapping[str, Column],
    *,
    view: Callable[[T], Row] | None = None,
    names: Mapping[str, str] | None = None,
) -> list[T]:
    """Sorted by columns, or by fields.

    `view`: what a row is sorted by, where that is not what it holds. `names`: fields that are called otherwise, too.
    """
    out = [(row if view is None else view(row), row) for row in rows]
    for key in reversed(keys):
        name, direction = _key(key)
        wanted = _normalized((names or {}).get(name.lower(), name))
        field = _headings(columns).get(wanted, wanted)
        known = [it for it in out if _value(it[0], field) is not None]
        unknown = [it for it in out if _value(it[0], field) is None]
        if unknown and not known:
            warn(f"(--sort-by {name}: no row has a value)")
        out = sorted(known, key=lambda it: _order(_value(it[0], field)), reverse=direction == "desc") + unknown
    return [row for _, row in out]


def _key(text: str) -> tuple[str, str]:
    """The name of what is sorted by, and which way."""
    name, _, direction = text.rpartition(":") if text.endswith((":desc", ":asc")) else (text, "", "")
    return name, direction


def _fields_of(shape: str) -> list[str]:
    from agent.presentation.schemas.builders import refs
    from agent.presentation.schemas.documents import DEFS

    fields = DEFS[shape].get("properties")
    return [*fields] if fields else [field for variant in refs(DEFS[shape]) for field in _fields_of(variant)]


def _headings(columns: Mapping[str, Column]) -> dict[str, str]:
    """Fields by what their columns are called, and by their own names."""
    return {_normalized(column.heading): key for key, column in columns.items()} | {key: key for key in columns}


def _normalized(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _value(row: Row, field: str) -> Any:
    """What a column shows, as it is: a time is kept in milliseconds."""
    milliseconds = row.get(f"{field}_ms")
    return row.get(field) if milliseconds is None else milliseconds


def _order(value: Any) -> tuple[int, Any]:
    """Numbers before texts; of several things, how many they are."""
    match value:
        case int() | float() as number:
            return 0, number
        case list() | dict() | tuple() as several:
            return 0, len(several)
        case other:
            return 1, str(other).casefold()
