"""What may stand otherwise than it is told: a transaction hides what was written since, or records were passed over.

Owns the sentences; forms are those of `OpenTransaction`, or its JSON (`stale` of a group), and `quarantined` of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.core.open_transactions import OpenTransaction
from agent.presentation.narrative.words import about, clock, count, day, join_words, name, timestamp

Form = Mapping[str, Any]

MAX_PARTITIONS = 5
"""How many partitions a sentence names."""


def open_transaction_json(it: OpenTransaction) -> dict[str, Any]:
    """As an answer has it."""
    return {**it._asdict(), "transactional_ids": list(it.transactional_ids)}


def known_until_ms(form: Form | None, now_ms: int) -> int:
    """Up to when all is known of a group, by its row: until now, or until a transaction began to hide things."""
    stale = None if form is None else form.get("stale")
    return now_ms if stale is None else int(min(stale["since_ms"], now_ms))


def stale_sentence(group: str, stale: Form, now_ms: int) -> str:
    """`What is known of `g` is as of 14:03:12 UTC: transaction `x` has been open for 4 min and hides …`"""
    since_ms = stale["since_ms"]
    return (
        f"What is known of {name(group)} is as of {_when(since_ms, now_ms)} UTC: {_hides(stale, now_ms - since_ms)}."
    )


def reservations(form: Form | None, now_ms: int) -> list[str]:
    """What must be said before all that is told of a group, by its row or all of it; without it, nothing."""
    if form is None:
        return []
    stale, passed = form.get("stale"), form.get("quarantined")
    return [
        *([] if stale is None else [stale_sentence(form["group"], stale, now_ms)]),
        *([] if passed is None else [quarantined_sentence([form])]),
    ]


def quarantined_sentence(rows: Sequence[Form]) -> str:
    """Of groups in whose partitions records were passed over, by their rows; `/readyz` says which, and why."""
    of = {row["coordinator_partition"]: row["quarantined"]["records"] for row in rows}
    names = join_words([name(row["group"]) for row in rows])
    partitions = (
        f"partition{'' if len(of) == 1 else 's'} {join_words([str(it) for it in sorted(of)], MAX_PARTITIONS)}"
    )
    return (
        f"{names} may stand otherwise than is told: {count(sum(of.values()), 'record')} of {partitions} of"
        " __consumer_offsets could not be read."
    )


def unseen_clause(partition: int, it: OpenTransaction) -> str:
    """Why a group of that partition may be there and not be known."""
    return (
        f"in partition {partition} of __consumer_offsets, where it would be, {_subject(it._asdict())} is open since"
        f" {timestamp(it.since_ms)} UTC and hides what was written later"
    )


def unread_clause(partition: int) -> str:
    """Why an agent of some partitions does not know a group of another one."""
    return f"it would be in partition {partition} of __consumer_offsets, which this agent does not read"


def hidden_sentence(partition: int, it: OpenTransaction, age_ms: int, groups: int) -> str:
    """For the log: one transaction, once it hides something."""
    return (
        f"partition {partition}: {_hides(it._asdict(), age_ms)} ({timestamp(it.since_ms)} UTC, offset {it.offset});"
        f" what is known of {count(groups, 'group')} is as of then"
    )


def ended_sentence(partition: int, it: OpenTransaction, age_ms: int) -> str:
    """For the log: its end."""
    return f"partition {partition}: {_subject(it._asdict())} has ended after {about(age_ms)}; what it hid can be read"


def worry(found: Mapping[int, OpenTransaction], groups: int) -> str:
    """All of them in one clause, which stays the same while they are open."""
    oldest = min(found.values(), key=lambda it: it.since_ms)
    places = join_words([str(it) for it in sorted(found)], MAX_PARTITIONS)
    where = f"partition{'' if len(found) == 1 else 's'} {places} of __consumer_offsets"
    since = f"{timestamp(oldest.since_ms)} UTC"
    said = f"what is known of {count(groups, 'group')} in {where} is as of {since}"
    if len(found) == 1:
        return f"{said}: {_subject(oldest._asdict())} is open since then and hides what was written later"
    first = _subject(oldest._asdict())
    return f"{said} or later: transactions are open and hide what was written since, of which {first} is the oldest"


def stale_answer(stale: Form, now_ms: int) -> str:
    """Before an answer in short."""
    return f"As of {_when(stale['since_ms'], now_ms)} UTC, since an open transaction hides what was written later."


def unread_sentence(group: str, known_ms: int, reason: str) -> str:
    """`What is known of `g` is as of 2026-11-21 14:03:12 UTC: the agent has read nothing since then (…).`"""
    said = f"What is known of {name(group)} is as of {timestamp(known_ms)} UTC: the agent has read nothing since then"
    return f"{said} ({reason})."


def unread_answer(known_ms: int) -> str:
    """Before an answer in short. With its date: an outage may have begun on another day."""
    return f"As of {timestamp(known_ms)} UTC: the agent has read nothing since then."


def stale_groups_sentence(rows: Sequence[Form], now_ms: int) -> str:
    """`stale_sentence` of some groups at once, by their rows."""
    if len(rows) == 1:
        return stale_sentence(rows[0]["group"], rows[0]["stale"], now_ms)
    oldest = min((row["stale"] for row in rows), key=lambda it: it["since_ms"])
    names = join_words([name(row["group"]) for row in rows])
    since_ms = oldest["since_ms"]
    return (
        f"What is known of {names} is as of {_when(since_ms, now_ms)} UTC or later: "
        f"{_hides(oldest, now_ms - since_ms)}."
    )


def _when(at_ms: int, now_ms: int) -> str:
    return clock(at_ms) if day(at_ms) == day(now_ms) else timestamp(at_ms)


def _hides(it: Form, age_ms: int) -> str:
    return f"{_subject(it)} has been open for {about(max(age_ms, 0))} and hides what was written since"


def _subject(it: Form) -> str:
    """Which transaction it is, as well as that is known."""
    names = it["transactional_ids"]
    of = f" that commits offsets of {name(it['group'])}" if it["group"] is not None else ""
    if len(names) == 1:
        return f"transaction {name(names[0])}{of}"
    if names:
        return f"a transaction{of} (one of {join_words([name(one) for one in names])})"
    return f"a transaction{of}"
