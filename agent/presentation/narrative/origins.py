"""Origins in words: what happened to the pods of members, beside the causes that the log shows.

An origin is what Kubernetes reports (`agent.core.inference.origins`): a fact, where a cause is inferred. Where a
cause and an origin cannot both be right, both are told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import msgspec

from agent.common.text import truncated
from agent.core.causes import TIMEOUT_CAUSES, Cause, cause_info
from agent.core.inference.origins import (
    MAX_MESSAGE_CHARACTERS,
    Origin,
    contradicts,
    origin_info,
    origin_went,
)
from agent.presentation.narrative.events import Departure, Evidence, MemberRef
from agent.presentation.narrative.phrases import went
from agent.presentation.narrative.words import (
    Calendar,
    certainty_percent,
    grouped,
    join_words,
    name,
)

MAX_CONTRADICTIONS = 3
"""So many are told one by one."""


def is_trouble(gone: Departure) -> bool:
    """Whether its origin is what it is told by, and something is to be done about it."""
    return gone.member.origin is not None and gone.member.origin.is_trouble


def is_contradiction(gone: Departure) -> bool:
    """Whether cause and origin cannot both be right."""
    origin = gone.member.origin
    return origin is not None and contradicts(gone.cause, origin.kind)


def is_explained(gone: Departure) -> bool:
    """Whether it is known why it left: by its cause, or by its origin."""
    return gone.cause != Cause.UNKNOWN_DEPARTURE or gone.member.origin is not None


def short_words(origin: Origin) -> str:
    """`OOM-killed at its limit of 512Mi`, `exited with code 1`, `scaled down`."""
    return f"{origin.words}{_at_limit([origin])}"


def _at_limit(origins: Iterable[Origin]) -> str:
    limits = {it.limit for it in origins if it.limit is not None}
    return f" at its limit of {limits.pop()}" if len(limits) == 1 else ""


def origins_suffix(gone: Sequence[Departure]) -> str:
    """What is put behind a clause on members that left in one way: `: OOM-killed at its limit of 512Mi`; ""."""
    known = [it.member.origin for it in gone if it.member.origin is not None]
    if not known:
        return ""
    kinds = Counter(short_words(it) for it in known)
    if len(kinds) == 1 and len(known) == len(gone):
        said = next(iter(kinds))
    else:
        said = join_words([f"{words} ({number})" for words, number in kinds.most_common()])
    if any(map(is_contradiction, gone)):
        return f", though Kubernetes reports: {said}"
    return f": {said}"


def joins_suffix(joined: Collection[MemberRef]) -> str:
    """` (scaled up)`, where Kubernetes tells how all of them came; ""."""
    words = {it.origin.words for it in joined if it.origin is not None}
    return f" ({words.pop()})" if len(words) == 1 and all(it.origin is not None for it in joined) else ""


def answer_clause(gone: Sequence[Departure], who: str) -> str | None:
    """What follows `x was removed from g at some time: `, of departures that `who` names; None where not all of them
    are of one origin that says more than their causes."""
    origins = [it.member.origin for it in gone]
    known = [it for it in origins if it is not None]
    if (
        len(known) < len(gone)
        or len({(it.kind, it.exit_code) for it in known}) > 1
        or any(map(is_contradiction, gone))
    ):
        return None
    it, is_many = known[-1], not who.startswith("`")
    subject = "they" if is_many else "it"
    if not is_many and len({one.pod for one in known}) == 1 and who != name(it.pod):
        subject = f"pod {name(it.pod)}"
    said = f"{subject} {origin_went(it.kind, it.exit_code, of_many=is_many)}{_at_limit(known)}"
    if it.is_trouble:
        return said
    timed_out = all(one.cause in TIMEOUT_CAUSES for one in gone)
    if timed_out and (answer := cause_info(gone[0].cause).answer) is not None:
        _, colon, cause = answer[is_many].partition(": ")
        return f"{cause} after {said}" if colon else None
    return None


def contradiction_clause(gone: Departure) -> str:
    """Behind `x left g at some time (likely)`: `, though Kubernetes reports that it was OOM-killed`."""
    origin = gone.member.origin
    assert origin is not None, "asked only where there is one"
    said = origin_went(origin.kind, origin.exit_code)
    return f", though Kubernetes reports that it {said}{_at_limit([origin])}"


def origin_sentences(gone: Iterable[Departure], calendar: Calendar) -> list[tuple[str, tuple[Evidence, ...]]]:
    """What Kubernetes tells of members that left, those of trouble first; and where that contradicts their causes."""
    gone = list(gone)
    kinds = sorted(by_kind(gone).items(), key=lambda it: (not origin_info(it[0]).is_trouble, -len(it[1])))
    out: list[tuple[str, tuple[Evidence, ...]]] = []
    for kind, (*earlier, last) in kinds:
        said = _sentence(last, calendar)
        if earlier:
            pods = dict.fromkeys(name(it.member.origin.pod) for it in earlier if it.member.origin is not None)
            which = f"{'pod' if len(pods) == 1 else 'pods'} {join_words(list(pods))}"
            said += f" Before it, {len(earlier)} more {origin_went(kind, of_many=len(earlier) > 1)} ({which})."
        out.append((said, tuple(map(_evidence, (*earlier, last)))))
    return out + [(_contradiction(it), ()) for it in list(filter(is_contradiction, gone))[-MAX_CONTRADICTIONS:]]


def by_kind(gone: Iterable[Departure]) -> dict[str, list[Departure]]:
    """Those whose origin is known, by its kind."""
    known = (it for it in gone if it.member.origin is not None)
    return grouped(known, lambda it: "" if it.member.origin is None else it.member.origin.kind)


def _evidence(gone: Departure) -> Evidence:
    return {"kind": "origin", "member_id": gone.member.member_id, "origin": msgspec.to_builtins(gone.member.origin)}


def _sentence(gone: Departure, calendar: Calendar) -> str:
    origin = gone.member.origin
    assert origin is not None, "asked only where there is one"
    where = [f"pod {name(origin.pod)}"]
    if origin.node is not None:
        where.append(f"node {name(origin.node)}")
    if origin.exit_code is not None:
        where.append(f"exit code {origin.exit_code}")
    message = truncated(origin.message.strip(), MAX_MESSAGE_CHARACTERS) or origin.words
    return f"Kubernetes, at {calendar.at(origin.at_ms)}: {message} ({', '.join(where)})."


def _contradiction(gone: Departure) -> str:
    origin = gone.member.origin
    assert origin is not None, "asked only where there is one"
    sure = "observed" if gone.observed else certainty_percent(gone.confidence)
    return (
        f"Cause and origin of {name(gone.member.label)} contradict each other: by the log it {went(gone.cause)} "
        f"({sure}), by Kubernetes it {origin_went(origin.kind, origin.exit_code)}. Clocks may differ, or another "
        "container of its pod ended."
    )


def unexplained(gone: Iterable[Departure]) -> int:
    """How many members left of which neither cause nor origin is known."""
    return sum(not is_explained(it) for it in gone)
