"""Members and their partitions as a map: a row for each member, a cell for each partition, coloured by topic.

Where all cells fit side by side each partition has its own column, so that the eye sees who has which; else each row
has its own cells one after another. Glyphs say the same as colours do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len

from agent.cli.tui.fleet import JsonView, display_text
from agent.cli.tui.group_state import GroupState, PartitionKey
from agent.cli.tui.lines import Line, Piece, fitted, wrapped
from agent.presentation.narrative.phrases import work
from agent.presentation.narrative.words import count

HELD, MOVED, UNOWNED, EMPTY_CELL = "■", "◆", "□", "·"
TOPIC_STYLES = tuple(f"topic{number}" for number in range(7))
MAX_MEMBERS = 200
LETTERS = "abcdefghijklmnopqrstuvwxyz"
MAX_LABEL = 24
UNASSIGNED = "(unassigned)"
"""The row of partitions that no member holds."""
WIDE_FROM = 64
"""From so many columns on a cell may take two."""


class Topic(Struct, frozen=True):
    """A topic's block of the map: `tag` is its letter where its name does not fit above its cells."""

    name: str
    partitions: tuple[int, ...]
    style: str
    tag: str


class MemberRow(Struct, frozen=True):
    """A member's row."""

    label: str
    partitions: frozenset[PartitionKey]


def assignment_map(watched: GroupState, width: int) -> list[Line]:
    """The map and its legend."""
    form = watched.form
    if form is None:
        return []
    seats = _member_rows(form["members"])
    topics = _topics(form)
    noun = work(form["group_type"])
    if not seats:
        known = sum(len(topic.partitions) for topic in topics)
        text = f"The group has no members{f'; {count(known, noun)} with commits' if known else ''}."
        return [((f" {text}", "dim"),)]
    held = frozenset[PartitionKey]().union(*(seat.partitions for seat in seats))
    nobodys = frozenset((topic.name, it) for topic in topics for it in topic.partitions) - held
    if nobodys:
        seats = [*seats, MemberRow(UNASSIGNED, nobodys)]
    label = min(max(cell_len(seat.label) for seat in seats), MAX_LABEL, max(width // 3, 8))
    room = width - label - 7
    cells = sum(len(topic.partitions) for topic in topics)
    step = 2 if 2 * cells + len(topics) * 2 <= room and width > WIDE_FROM else 1
    blocks = [max(len(topic.partitions) * step, min(cell_len(display_text(topic.name)), 14)) for topic in topics]
    if sum(blocks) + len(blocks) > room:
        blocks = [len(topic.partitions) for topic in topics]
    if sum(blocks) + len(blocks) > room:
        rows = [_packed_row(seat, topics, watched.moved, label, room) for seat in seats[:MAX_MEMBERS]]
        named = False
    else:
        named = all(cell_len(display_text(topic.name)) <= block for topic, block in zip(topics, blocks, strict=True))
        rows = _matrix(seats[:MAX_MEMBERS], topics, blocks, step, watched.moved, label, named)
    if len(seats) > MAX_MEMBERS:
        rows.append(((f" … and {count(len(seats) - MAX_MEMBERS, 'more member')}", "dim"),))
    return [*rows, *_legend(watched, topics, named, noun, bool(nobodys), width)]


def _member_rows(members: Sequence[JsonView]) -> list[MemberRow]:
    labels = Counter(member["client_id"] or member["member_id"] for member in members)
    out = []
    for member in members:
        name = member["client_id"] or member["member_id"]
        label = display_text(name, 60)
        # Of members that are called alike, what tells them apart.
        if labels[name] > 1:
            more = member.get("instance_id") or member["member_id"][-6:]
            label = f"{label[: MAX_LABEL - 8]} {display_text(more, 7)}"
        places = frozenset((topic, it) for topic, held in member["assignment"].items() for it in held)
        out.append(MemberRow(label, places))
    return sorted(out, key=lambda seat: seat.label)


def _topics(form: JsonView) -> list[Topic]:
    found: dict[str, set[int]] = {}
    for member in form["members"]:
        for topic, partitions in member["assignment"].items():
            found.setdefault(topic, set()).update(partitions)
    if form["group_type"] in ("classic", "consumer"):
        for offset in form["offsets"]:
            found.setdefault(offset["topic"], set()).add(offset["partition"])
    return [
        Topic(
            name,
            tuple(sorted(found[name])),
            TOPIC_STYLES[number % len(TOPIC_STYLES)],
            LETTERS[number % len(LETTERS)],
        )
        for number, name in enumerate(sorted(found))
    ]


def _row_head(seat: MemberRow, label: int) -> list[Piece]:
    nobody = seat.label == UNASSIGNED
    return [
        (" " + fitted(seat.label, label), "bad" if nobody else ""),
        (fitted(str(len(seat.partitions)), 4, right=True) + "  ", "dim" if seat.partitions else "warn"),
    ]


def _cell(place: PartitionKey, topic: Topic, moved: frozenset[PartitionKey], nobody: bool) -> Piece:
    if nobody:
        return UNOWNED, "bad"
    return (MOVED, "moved") if place in moved else (HELD, topic.style)


def _matrix(
    seats: Sequence[MemberRow],
    topics: Sequence[Topic],
    blocks: Sequence[int],
    step: int,
    moved: frozenset[PartitionKey],
    label: int,
    named: bool,
) -> list[Line]:
    space = " " * (label + 7)
    names: list[Piece] = [(space, "")]
    numbers: list[Piece] = [(space, "")]
    for topic, block in zip(topics, blocks, strict=True):
        names.append((fitted(display_text(topic.name) if named else topic.tag, block) + " ", topic.style))
        numbers.append((fitted("".join(str(it % 10).ljust(step) for it in topic.partitions), block) + " ", "dim"))
    out: list[Line] = [tuple(names), tuple(numbers)]
    for seat in seats:
        nobody = seat.label == UNASSIGNED
        line = _row_head(seat, label)
        for topic, block in zip(topics, blocks, strict=True):
            for partition in topic.partitions:
                place = (topic.name, partition)
                line.append(_cell(place, topic, moved, nobody) if place in seat.partitions else (EMPTY_CELL, "faint"))
                if step > 1:
                    line.append((" " * (step - 1), ""))
            line.append((" " * (block - len(topic.partitions) * step + 1), ""))
        out.append(tuple(line))
    return out


def _packed_row(
    seat: MemberRow, topics: Sequence[Topic], moved: frozenset[PartitionKey], label: int, room: int
) -> Line:
    line = _row_head(seat, label)
    left = room - 6
    rest = len(seat.partitions)
    for topic in topics:
        held = [(topic.name, it) for it in topic.partitions if (topic.name, it) in seat.partitions]
        if not held:
            continue
        if left < 3:
            break
        line.append((topic.tag, topic.style))
        left -= 1
        for place in held[:left]:
            line.append(_cell(place, topic, moved, seat.label == UNASSIGNED))
            rest -= 1
        left -= min(len(held), left)
        if left > 0:
            line.append((" ", ""))
            left -= 1
    if rest:
        line.append((f"+{rest}", "dim"))
    return tuple(line)


def _legend(
    watched: GroupState, topics: Sequence[Topic], named: bool, noun: str, nobodys: bool, width: int
) -> list[Line]:
    out: list[Line] = []
    if not named:
        names = "  ".join(
            f"{topic.tag}={display_text(topic.name, 40)} ({len(topic.partitions)})" for topic in topics[:60]
        )
        out += wrapped([(" ", "")], names, width, "dim")
    parts = [f"{HELD} a {noun} held"]
    if watched.moves_known:
        parts.append(f"{MOVED} moved last ({len(watched.moved)})" if watched.moved else "none moved last")
    else:
        parts.append(f"{MOVED} will mark what moves from now on")
    if nobodys:
        parts.append(f"{UNOWNED} unassigned")
    return [*out, *wrapped([(" ", "")], "   ".join(parts), width, "dim")]
