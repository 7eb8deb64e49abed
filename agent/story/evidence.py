"""What the evidence of a cause says, in sentences.

The kinds are those of `agent.shadow.causes` and of witnesses. One that is not known here is shown with its fields,
so that nothing is kept back because it is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agent.story.reading import Evidence, Gone, number
from agent.story.words import clock, count, duration, durations, listed, name, stamp

MAX_VALUE = 200
"""Characters of a value of unknown evidence."""

MAX_SENTENCES = 3
"""Sentences of one kind of evidence: a storm has hundreds of the same."""

MOMENT_MS = 10**11
"""Milliseconds from here on are a time and no duration."""

POLL = "max.poll.interval.ms"
SESSION = "session.timeout.ms"


def of_departures(gone: Sequence[Gone]) -> list[str]:
    """Why kshadow believes that these members, all of one cause, went so. Empty where nothing was measured."""
    gaps = [item for it in gone for item in it.evidence if item.get("kind") == "commit_gap"]
    measured = [item for item in gaps if number(item, "gap_ms") is not None]
    out = [_gap(gone[0].cause, measured)] if measured else []
    short = [lasted for item in gaps if (lasted := number(item, "generation_lasted_ms")) is not None]
    if short:
        nothing = "It had not committed" if len(gone) == 1 else "Of some no commit shows"
        out.append(
            f"{nothing}, but the generation lasted only {durations(short)}: no timeout that began with it can have "
            "run out."
        )
    others = [item for it in gone for item in it.evidence if item.get("kind") != "commit_gap"]
    return out + in_words(others)


def _gap(cause: str, gaps: Sequence[Evidence]) -> str:
    whose, it = ("Its", "it") if len(gaps) == 1 else ("Each one's", "each")
    every, session, poll = (
        _all(gaps, field) for field in ("commits_every_ms", "session_timeout_ms", "rebalance_timeout_ms")
    )
    # Newer group types write no session timeout, and have no join phase.
    end = "the join phase ended" if session else "the epoch was raised"
    text = f"{whose} last commit came {durations(_all(gaps, 'gap_ms'))} before {end}"
    pace = f"; until then {it} had committed about every {durations(every)}" if every else ""
    match cause:
        case "session_timeout" if session:
            return f"{text}, and {SESSION} is {durations(session)}{pace}."
        case "session_timeout":
            return f"{text}{pace}. That is a silence, but too short for {POLL}{_is(poll)} to have run out."
        case "poll_timeout" if poll:
            return f"{text}, and {POLL} is {durations(poll)}, counted from its last poll{pace}."
        case "member_left" | "admin_removed":
            limit = f": {SESSION} ({durations(session)}) had not run out" if session else ""
            return f"{text}{limit}{pace}."
        case _:
            return f"{text}{pace}."


def _is(poll: Sequence[int]) -> str:
    return f" ({durations(poll)})" if poll else ""


def why_unknown(gone: Gone, group_type: str | None) -> str:
    """Why it cannot be told how a member went, as a clause that holds for several too."""
    for item in gone.evidence:
        if item.get("kind") != "commit_gap":
            continue
        gap = number(item, "gap_ms")
        if gap is None:
            if group_type == "share":
                return "share groups commit nothing to this topic, so there is no gap to measure"
            return "nothing was committed of what was held, so there is no gap to measure"
        session, poll = number(item, "session_timeout_ms"), number(item, "rebalance_timeout_ms")
        limits = [
            f"{label} {duration(limit)}" for label, limit in ((SESSION, session), (POLL, poll)) if limit is not None
        ]
        known = f" ({', '.join(limits)})" if limits else ""
        candidates = item.get("candidates")
        if isinstance(candidates, list) and candidates:
            fits = listed([str(it) for it in candidates])
            return f"a last commit {duration(gap)} before, which fits {fits}{known}"
        return f"a last commit {duration(gap)} before, which fits neither a goodbye nor a timeout{known}"
    return "the history holds no evidence of it"


def in_words(items: Iterable[Evidence]) -> list[str]:
    """Evidence of one matter in sentences: one kind after another, the same ones once, and not more than a few."""
    kinds: dict[str, list[Evidence]] = {}
    for item in items:
        kinds.setdefault(str(item.get("kind")), []).append(item)
    out: list[str] = []
    for kind, same in kinds.items():
        said = list(dict.fromkeys(_SAID.get(kind, _generics)(same)))
        out += said[:MAX_SENTENCES]
        if len(said) > MAX_SENTENCES:
            out.append(f"And {len(said) - MAX_SENTENCES} more like these.")
    return out


def _generics(items: Sequence[Evidence]) -> list[str]:
    return list(map(_generic, items))


def _generic(item: Evidence) -> str:
    """Evidence of a kind that is not known here, or without its usual fields: all it says."""
    kind = str(item.get("kind", "evidence"))[:MAX_VALUE].replace("_", " ")
    fields = ", ".join(
        f"{field} {_value(field, value)}"
        for field, value in item.items()
        if field not in ("kind", "observed") and value is not None
    )
    seen = "Seen" if item.get("observed") is True else "Also"
    return f"{seen}: {kind}{f' ({fields})' if fields else ''}."


def _value(field: str, value: Any) -> str:
    if field.endswith("_ms") and isinstance(value, int) and not isinstance(value, bool):
        return duration(value) if value < MOMENT_MS else f"{stamp(value)} UTC"
    text = str(value)
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"


def _all(items: Iterable[Evidence], field: str) -> list[int]:
    return [value for item in items if (value := number(item, field)) is not None]


Say = Callable[[Sequence[Evidence]], list[str]]


def _each(say: Callable[[Evidence], str | None]) -> Say:
    """One sentence an item, with its fields as they are where they are not as expected."""
    return lambda items: [say(item) or _generic(item) for item in items]


def _fixed(text: str) -> Say:
    return lambda _: [text]


def _ms(field: str, text: str) -> Say:
    """One sentence for all, with the least and the greatest duration."""

    def say(items: Sequence[Evidence]) -> list[str]:
        values = _all(items, field)
        return [text.format(durations(values))] if values else _generics(items)

    return say


def _silent(_: Sequence[Evidence]) -> list[str]:
    """What the line of the rebalance or its departures say already."""
    return []


def _withheld(item: Evidence) -> str | None:
    held = number(item, "partitions")
    return None if held is None else f"The round before had left {count(held, 'partition')} without an owner."


def _broker_log(item: Evidence) -> str | None:
    at_ms, reason = number(item, "at_ms"), item.get("reason")
    if at_ms is None or not isinstance(reason, str):
        return None
    return f"The broker's log, at {clock(at_ms)}: “{_value('reason', reason)}”."


def _admin_api(item: Evidence) -> str | None:
    began, error = number(item, "began_ms"), number(item, "error_ms")
    if began is None or error is None:
        return None
    return f"The Admin API saw the join phase begin at {clock(began)}, to within {duration(error)}."


def _subscription(item: Evidence) -> str | None:
    added, removed = item.get("added"), item.get("removed")
    if not isinstance(added, list) or not isinstance(removed, list):
        return None
    changes = [
        f"{verb} {listed([name(str(it)) for it in topics])}"
        for verb, topics in (("added", added), ("dropped", removed))
        if topics
    ]
    who = str(item.get("member_id") or "a member")
    return f"{name(who)} {' and '.join(changes)} in its subscription." if changes else None


def _partitions(item: Evidence) -> str | None:
    topics = item.get("topics")
    if not isinstance(topics, dict) or not all(isinstance(it, list) and len(it) == 2 for it in topics.values()):
        return None
    grown = [f"{name(str(topic))} grew from {old} to {new} partitions" for topic, (old, new) in topics.items()]
    return f"{listed(grown)}." if grown else None


def _migration(item: Evidence) -> str:
    return f"It became a {'classic' if item.get('to') == 'classic' else 'KIP-848 consumer'} group, members and all."


_SAID: dict[str, Say] = {
    "joined": _silent,
    "commit_gap": _silent,
    "generation_gap": _silent,
    "withheld": _each(_withheld),
    "subscription": _each(_subscription),
    "partitions": _each(_partitions),
    "migration": _each(_migration),
    "nobody_changed": _fixed(
        "Nobody came, went or changed its subscription: the broker then has no other reason than the topics."
    ),
    "nothing_changed": _fixed(
        "The same members with the same subscriptions: then only the leader can have asked for a rebalance."
    ),
    "internal_topics": _fixed(
        "The leader of a Streams group makes the internal topics as it assigns the first tasks, and joins again for "
        "them."
    ),
    "static_member_replaced": _ms(
        "gap_ms",
        "A static member came back {} after its last commit; only one that had been taken out starts a rebalance.",
    ),
    "static_member_expired": _fixed(
        "It had left for a restart (member epoch -2) and did not come back within its session."
    ),
    "broker_log": _each(_broker_log),
    "admin_api": _each(_admin_api),
}
