"""Who holds what in a group, as a matrix of members and topics: of one generation, with what moved since the one
before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from agent.core.shadow.diff import owner_key
from agent.core.shadow.views import Member
from agent.presentation.markup import Markup
from agent.presentation.narrative.phrases import epochs, work
from agent.presentation.narrative.words import count, day
from agent.serving.page.markup import (
    at,
    chips,
    current,
    group_address,
    hidden,
    link,
    name,
    number_ranges,
    section,
    table,
    text,
)
from agent.simulation.whatif.recorder import GroupRecording

MAX_ROWS = 60
MAX_COLUMNS = 8
"""Members and topics that are shown: those that moved first, then those that hold most."""
UNBROKEN = 24
"""A topic's name of at most so many characters stands whole in its column's head."""
MAX_GENERATIONS = 8
"""Generations that can be chosen: the newest, and the one that is shown."""
Parts = Mapping[str, frozenset[int]]
"""Partitions (of Connect: tasks) by topic."""


class Generation(NamedTuple):
    """How a generation (or epoch) shared out the work: `members` by what stays the same for one of them."""

    number: int
    at_ms: int
    members: Mapping[str, Member]


def generations_of(recording: GroupRecording | None) -> list[Generation]:
    """The generations that a recording shows, in order, each as it ended up."""
    if recording is None:
        return []
    by_number = {
        it.view.generation: Generation(it.view.generation, it.at_ms, _by_owner(it.members.values()))
        for it in recording.states
    }
    return list(by_number.values())


def _by_owner(members: Iterable[Member]) -> dict[str, Member]:
    return {owner_key(it.member_id, it.instance_id): it for it in members}


class MatrixRow(Struct, frozen=True):
    """One member, what it holds now, and what it held in the generation before."""

    key: str
    member: Member
    now: Parts
    before: Parts
    came: bool
    left: bool

    @property
    def held(self) -> int:
        """How many partitions it holds."""
        return sum(map(len, self.now.values()))

    @property
    def moved(self) -> int:
        """How many it has gained or given up."""
        return sum(len(self.of(topic).moved) for topic in self.now.keys() | self.before.keys())

    def of(self, topic: str) -> Cell:
        """What it holds of one topic."""
        now, before = self.now.get(topic, frozenset()), self.before.get(topic, frozenset())
        return Cell(now & before, now - before, before - now)


class Cell(NamedTuple):
    """Partitions of one topic that a member kept, gained, gave up."""

    kept: frozenset[int]
    gained: frozenset[int]
    lost: frozenset[int]

    @property
    def moved(self) -> frozenset[int]:
        """What it gained or gave up."""
        return self.gained | self.lost


def matrix_rows(shown: Generation, before: Generation | None, names: Mapping[str, str]) -> list[MatrixRow]:
    """A row for each member of a generation, and for each that it lost; what moved most comes first. `names`: what
    topics are called that have an id instead, as nobody had committed their names by then."""
    old = {} if before is None else before.members
    # Of the first generation that is known nothing tells what moved.
    was = shown.members if before is None else old
    rows = [
        MatrixRow(
            key,
            member,
            _parts(member, names) if key in shown.members else {},
            _parts(was[key], names) if key in was else {},
            came=before is not None and key not in old,
            left=key not in shown.members,
        )
        for key, member in {**old, **shown.members}.items()
    ]
    return sorted(rows, key=lambda it: (-it.moved, -it.held, it.member.client_id, it.key))


def _parts(member: Member, names: Mapping[str, str]) -> Parts:
    # In newer groups members go from one assignment to the next in steps: the target is what this epoch wants.
    held = member.assignment if member.target is None else member.target
    return {names.get(topic, topic): frozenset(partitions) for topic, partitions in held.items() if partitions}


class Matrix(Struct, frozen=True):
    """The section, and whether it has everything that members hold now."""

    markup: Markup
    is_complete: bool


def matrix_section(
    recording: GroupRecording | None,
    asked: str | None,
    group_type: str,
    now_ms: int,
    query: Mapping[str, str | None],
    cluster: str | None,
    names: Mapping[str, str],
) -> Matrix:
    """The matrix of the generation that is `asked` for, else of the newest. `query`: what else the address says;
    `names`: of topics, by id."""
    known = generations_of(recording)
    if recording is None or not known:
        return Matrix(Markup(""), False)
    position = next((index for index, it in enumerate(known) if str(it.number) == asked), len(known) - 1)
    shown, before = known[position], known[position - 1] if position else None
    rows = matrix_rows(shown, before, names)
    topics = _topics(rows)
    columns = topics[:MAX_COLUMNS]
    unit, noun = epochs(group_type), work(group_type)
    heads = '<th scope="col">Member</th>' + "".join(f"{_head(it)}{name(it)}</th>" for it in columns)
    heads += f'<th scope="col" class="number">All {noun}s</th>'
    body = "".join(_row(it, columns) for it in rows[:MAX_ROWS])
    caption = f"Members and the {noun}s that each holds by topic, in {unit} {shown.number}"
    rest = [count(len(rows) - MAX_ROWS, "more member")] if len(rows) > MAX_ROWS else []
    rest += [count(len(topics) - MAX_COLUMNS, "more topic")] if len(topics) > MAX_COLUMNS else []
    said = _moves(shown, before, rows, unit, noun, now_ms)
    if asked is not None and asked != str(shown.number):
        said = Markup(f"{unit.capitalize()} {name(asked)} is not kept, so the newest is shown. {said}")
    inner = Markup(
        f'<div class="heading"><p class="count" id="moves">{said}</p>'
        f"{_choice(recording.group, known, shown, unit, query, cluster)}</div>"
        f"{table('matrix', 'assignment', caption, heads, body)}"
        f"{_rest(rest)}"
    )
    return Matrix(section("matrix", "Assignment", inner), not rest and position == len(known) - 1)


def _head(topic: str) -> str:
    # A name that fits a column is not broken within a word; a longer one may be, or it would widen the table.
    return '<th scope="col" class="short">' if len(topic) <= UNBROKEN else '<th scope="col">'


def _rest(rest: Sequence[str]) -> str:
    return f'<p class="more">And {" and ".join(rest)}, with fewer moves and partitions.</p>' if rest else ""


def _topics(rows: Sequence[MatrixRow]) -> list[str]:
    """Those with most moves first, then those with most partitions."""
    moved: dict[str, int] = {}
    held: dict[str, int] = {}
    for row in rows:
        for topic in row.now.keys() | row.before.keys():
            moved[topic] = moved.get(topic, 0) + len(row.of(topic).moved)
            held[topic] = held.get(topic, 0) + len(row.now.get(topic, ()))
    return sorted(moved, key=lambda it: (-moved[it], -held[it], it))


def _moves(
    shown: Generation, before: Generation | None, rows: Sequence[MatrixRow], unit: str, noun: str, now_ms: int
) -> Markup:
    """What moved, in a sentence."""
    head = f"{unit.capitalize()} {shown.number}, {at(shown.at_ms, day(now_ms))}"
    if before is None:
        return Markup(f"{head}. The one before it is not kept, so it is unknown what moved.")
    gained = sum(len(row.of(topic).gained) for row in rows for topic in row.now)
    held = sum(row.held for row in rows)
    came, left = sum(row.came for row in rows), sum(row.left for row in rows)
    said = [f"{gained} of {count(held, noun)} moved" if held else f"no {noun} is assigned"]
    said += [f"{count(came, 'member')} joined"] if came else []
    said += [f"{count(left, 'member')} left"] if left else []
    return Markup(f"{head}. Since {unit} {before.number}: {', '.join(said)}.")


def _choice(
    group: str,
    known: Sequence[Generation],
    shown: Generation,
    unit: str,
    query: Mapping[str, str | None],
    cluster: str | None,
) -> Markup:
    if len(known) < 2:
        return Markup("")
    newest = known[-MAX_GENERATIONS:]
    offered = newest if shown in newest else [shown, *newest]
    links = "".join(
        link(
            group_address(group, cluster, **query, generation=None if it is known[-1] else str(it.number)),
            str(it.number),
            data_swap="",
            **current(it is shown),
        )
        for it in reversed(offered)
    )
    return chips("generations", f"{unit.capitalize()}s", f"<span>{unit.capitalize()}</span>{links}")


def _row(row: MatrixRow, columns: Sequence[str]) -> Markup:
    member = row.member
    mark = '<span class="kind">joined</span>' if row.came else '<span class="kind">left</span>' if row.left else ""
    cells = "".join(f"<td>{_cell(row.of(topic))}</td>" for topic in columns)
    return Markup(
        f'<tr data-key="{text(row.key[-1_000:], 10_000)}"{" class=gone" if row.left else ""}>'
        f'<th scope="row" class="name">'
        f'<span title="{text(member.member_id)}">{name(member.client_id or member.member_id)}</span>{mark}</th>'
        f'{cells}<td class="number">{row.held}</td></tr>'
    )


def _cell(cell: Cell) -> Markup:
    if not any(cell):
        return hidden("none")
    out = [number_ranges(sorted(cell.kept))] if cell.kept else []
    out += [f"<ins>{hidden('gained ')}+{number_ranges(sorted(cell.gained))}</ins>"] if cell.gained else []
    out += [f"<del>{hidden('gave up ')}\u2212{number_ranges(sorted(cell.lost))}</del>"] if cell.lost else []
    return Markup(" ".join(out))
