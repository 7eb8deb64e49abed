"""What the evidence of a cause says, in sentences.

The kinds are those of `agent.core.inference.cause_inference` and of witnesses. One that is not known here is
shown with its fields, so that nothing is kept back because it is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from agent.common.text import truncated
from agent.presentation.narrative.events import Departure, Evidence, int_field
from agent.presentation.narrative.words import (
    clock,
    count,
    duration,
    duration_range,
    grouped,
    join_words,
    name,
    timestamp,
)

SAMPLED_GAP = "sampled_gap"
"""The kind of evidence of a member's silence where its group is looked at."""

MAX_VALUE = 200
"""Characters of a value of unknown evidence."""

MAX_SENTENCES = 3
"""Sentences of one kind of evidence: a storm has hundreds of the same."""

EPOCH_FROM_MS = 10**11
"""Milliseconds from here on are a time and no duration."""

MAX_POLL_INTERVAL = "max.poll.interval.ms"
SESSION_TIMEOUT = "session.timeout.ms"
GROUP_SESSION = "the group's session timeout"
BEGUN_ANEW = "begun anew as a coordinator took over the group"


def departure_evidence(gone: Sequence[Departure]) -> list[str]:
    """Why kshadow believes that these members, all of one cause, went so. Empty where nothing was measured."""
    looks = [item for it in gone for item in it.evidence if item.get("kind") == SAMPLED_GAP]
    gaps = [item for it in gone for item in it.evidence if item.get("kind") == "commit_gap"]
    measured = [item for item in gaps if int_field(item, "gap_ms") is not None]
    out = _commit_gap_sentences(gone[0].cause, measured)
    out += _sampled_gap_sentence(gone[0].cause, looks)
    silent = [item for item in gaps if int_field(item, "generation_lasted_ms") is not None]
    if silent:
        nothing = "It had not" if len(gone) == 1 else "Some had not" if measured else "None had"
        out.append(_no_commit_sentence(gone[0].cause, silent, nothing))
    others = [item for it in gone for item in it.evidence if item.get("kind") not in ("commit_gap", SAMPLED_GAP)]
    return out + evidence_sentences(others)


def _commit_gap_sentences(cause: str, gaps: Sequence[Evidence]) -> list[str]:
    """One, or where a group changed its protocol one of the members of each: a session timeout is only the classic
    ones'."""
    classic = [item for item in gaps if int_field(item, "session_timeout_ms") is not None]
    others = [item for item in gaps if item not in classic]
    if classic and others:
        return [
            _commit_gap_sentence(cause, classic, "Of members of the classic protocol, the last commit of each"),
            _commit_gap_sentence(cause, others, "Of the others, the last commit of each"),
        ]
    whose = "Its last commit" if len(gaps) == 1 else "Each one's last commit"
    return [_commit_gap_sentence(cause, gaps, whose)] if gaps else []


def _commit_gap_sentence(cause: str, gaps: Sequence[Evidence], subject: str) -> str:
    it = "it" if len(gaps) == 1 else "each"
    every, session, rebalance, unmoved = (
        _int_fields(gaps, field)
        for field in ("commits_every_ms", "session_timeout_ms", "rebalance_timeout_ms", "unmoved_ms")
    )
    poll = _int_fields([item for item in gaps if item.get("has_poll_limit", True)], "rebalance_timeout_ms")
    of_group = _int_fields(gaps, "group_session_timeout_ms")
    # Newer group types write no session timeout, and have no join phase.
    end = "the join phase ended" if session else "the epoch was raised"
    text = f"{subject} came {duration_range(_int_fields(gaps, 'gap_ms'))} before {end}"
    pace = f"; until then {it} had committed about every {duration_range(every)}" if every else ""
    anew = f", {BEGUN_ANEW}" if any(item.get("coordinator_changed") for item in gaps) else ""
    match cause:
        case "session_timeout" if session or of_group:
            setting, timeout = (SESSION_TIMEOUT, session) if session else (GROUP_SESSION, of_group)
            return f"{text}, and {setting} is {duration_range(timeout)}{anew}{pace}."
        case "session_timeout" if anew:
            return f"{text}, and its session was{anew[1:]}{pace}."
        case "session_timeout":
            return f"{text}{pace}. Too short for {MAX_POLL_INTERVAL}{_in_brackets(poll)} to have expired."
        case "poll_timeout" if unmoved:
            return f"{text}, but its committed offsets had not moved for {duration_range(unmoved)}{pace}."
        case "rejoin_timeout" if rebalance:
            return f"{text}, and the rebalance timeout is {duration_range(rebalance)}{pace}."
        case "poll_timeout" if poll:
            return f"{text}, and {MAX_POLL_INTERVAL} is {duration_range(poll)}, counted from its last poll{pace}."
        case "member_left" | "admin_removed":
            setting, timeout = (SESSION_TIMEOUT, session) if session else (GROUP_SESSION, of_group)
            is_early = timeout and max(_int_fields(gaps, "gap_ms")) < min(timeout)
            limit = f": {setting} ({duration_range(timeout)}) had not expired" if session or is_early else ""
            return f"{text}{limit}{pace}."
        case _:
            return f"{text}{pace}."


def _no_commit_sentence(cause: str, gaps: Sequence[Evidence], nothing: str) -> str:
    """Of members that never committed: how long the generation lasted in which they went, beside the timeout."""
    lasted = duration_range(_int_fields(gaps, "generation_lasted_ms"))
    setting, field = (
        (MAX_POLL_INTERVAL, "rebalance_timeout_ms")
        if cause == "poll_timeout"
        else (SESSION_TIMEOUT, "session_timeout_ms")
    )
    timeout = _int_fields(gaps, field)
    limit = f", and {setting} is {duration_range(timeout)}" if timeout else ""
    return f"{nothing} committed; the generation lasted {lasted}{limit}."


def _sampled_gap_sentence(cause: str, looks: Sequence[Evidence]) -> list[str]:
    """What looks at the positions of members showed (`agent.core.inference.sampled_inference`)."""
    least, most = _int_fields(looks, "gap_least_ms"), _int_fields(looks, "gap_most_ms")
    if not least or not most:
        return []
    whose = "Its positions were" if len(looks) == 1 else "The positions of each were"
    every = _int_fields(looks, "moves_every_ms")
    pace = f"; until then they moved about every {duration_range(every)}" if every else ""
    text = f"{whose} seen to move last between {duration(min(least))} and {duration(max(most))} before it was gone"
    known = ""
    if cause in ("session_timeout", "poll_timeout"):
        of_group = _int_fields(looks, "group_session_timeout_ms")
        known = ". Timeouts are not in the Admin API: this is inferred from the clients' defaults"
        if cause == "session_timeout" and len(of_group) == len(looks):
            known = f", and {GROUP_SESSION} is {duration_range(of_group)}"
    return [f"{text}{pace}{known}."]


def _in_brackets(poll: Sequence[int]) -> str:
    return f" ({duration_range(poll)})" if poll else ""


def why_unknown(gone: Departure, group_type: str | None) -> str:
    """Why it cannot be told how a member went, as a clause that holds for several too."""
    for item in gone.evidence:
        if item.get("kind") == SAMPLED_GAP:
            return _why_looks_do_not_tell(item)
        if item.get("kind") != "commit_gap":
            continue
        gap = int_field(item, "gap_ms")
        if gap is None:
            if group_type == "share":
                return "share groups commit nothing to this topic, so there is no gap to measure"
            if group_type == "streams":
                return "nothing was committed of the topics that its topology names, so there is no gap to measure"
            return "nothing was committed of what was held, so there is no gap to measure"
        session, poll = int_field(item, "session_timeout_ms"), int_field(item, "rebalance_timeout_ms")
        of_group = int_field(item, "group_session_timeout_ms")
        if not item.get("has_poll_limit", True):
            poll = None
        limits = [
            f"{label} {duration(limit)}"
            for label, limit in ((SESSION_TIMEOUT, session), (GROUP_SESSION, of_group), (MAX_POLL_INTERVAL, poll))
            if limit is not None
        ]
        if item.get("coordinator_changed"):
            limits.append(f"sessions {BEGUN_ANEW}")
        if (paused := int_field(item, "nothing_written_ms")) is not None:
            limits.append(f"nothing written for {duration(paused)}, as where a broker stands still")
        known = f" ({', '.join(limits)})" if limits else ""
        candidates = item.get("candidates")
        if isinstance(candidates, list) and candidates:
            fits = join_words([str(it) for it in candidates])
            return f"a last commit {duration(gap)} before, which fits {fits}{known}"
        return f"a last commit {duration(gap)} before, which fits neither a LeaveGroup nor a timeout{known}"
    return "the history holds no evidence of it"


def _why_looks_do_not_tell(item: Evidence) -> str:
    least, most = int_field(item, "gap_least_ms"), int_field(item, "gap_most_ms")
    if most is None or least is None:
        return "its positions were not seen to move before, or it is not known when they moved last"
    span = f"its positions moved last between {duration(least)} and {duration(most)} before it was gone"
    candidates = item.get("candidates")
    if isinstance(candidates, list) and candidates:
        return f"{span}, which fits {join_words([str(it) for it in candidates])}"
    return f"{span}, and they had not moved often enough before to tell a silence"


def evidence_sentences(items: Iterable[Evidence]) -> list[str]:
    """Evidence of one matter in sentences: one kind after another, the same ones once, and not more than a few."""
    out: list[str] = []
    for kind, same in grouped(items, lambda item: str(item.get("kind"))).items():
        said = list(dict.fromkeys(_sentences_of(kind, same)))
        out += said[:MAX_SENTENCES]
        if len(said) > MAX_SENTENCES:
            out.append(f"And {len(said) - MAX_SENTENCES} more like these.")
    return out


def _sentences_of(kind: str, same: Sequence[Evidence]) -> list[str]:
    """One for all of them where that is all there is to say, else one each; with their fields as they are where these
    are not as expected."""
    writer = _WRITERS.get(kind, _unknown_kind_sentence)
    match writer:
        case None:
            return []
        case str():
            return [writer]
        case _DurationSentence(field, text):
            values = _int_fields(same, field)
            return [text.format(duration_range(values))] if values else list(map(_unknown_kind_sentence, same))
        case _:
            return [writer(item) or _unknown_kind_sentence(item) for item in same]


def _unknown_kind_sentence(item: Evidence) -> str:
    """Evidence of a kind that is not known here, or without its usual fields: all it says."""
    kind = str(item.get("kind", "evidence"))[:MAX_VALUE].replace("_", " ")
    fields = ", ".join(
        f"{field} {_field_value(field, value)}"
        for field, value in item.items()
        if field not in ("kind", "observed") and value is not None
    )
    seen = "Seen" if item.get("observed") is True else "Also"
    return f"{seen}: {kind}{f' ({fields})' if fields else ''}."


def _field_value(field: str, value: Any) -> str:
    if field.endswith("_ms") and isinstance(value, int) and not isinstance(value, bool):
        return duration(value) if value < EPOCH_FROM_MS else f"{timestamp(value)} UTC"
    return truncated(str(value), MAX_VALUE)


def _int_fields(items: Iterable[Evidence], field: str) -> list[int]:
    return [value for item in items if (value := int_field(item, field)) is not None]


class _DurationSentence(NamedTuple):
    """One sentence for all, with the least and the greatest duration that stands in a field."""

    field: str
    text: str


def _withheld_sentence(item: Evidence) -> str | None:
    held = int_field(item, "partitions")
    return None if held is None else f"The rebalance before had left {count(held, 'partition')} unassigned."


def _broker_log_sentence(item: Evidence) -> str | None:
    at_ms, reason = int_field(item, "at_ms"), item.get("reason")
    if at_ms is None or not isinstance(reason, str):
        return None
    return f"The broker's log, at {clock(at_ms)}: “{_field_value('reason', reason)}”."


def _admin_api_sentence(item: Evidence) -> str | None:
    began, error = int_field(item, "began_ms"), int_field(item, "error_ms")
    if began is None or error is None:
        return None
    return f"The Admin API saw the join phase begin at {clock(began)}, to within {duration(error)}."


def _subscription_sentence(item: Evidence) -> str | None:
    added, removed = item.get("added"), item.get("removed")
    if not isinstance(added, list) or not isinstance(removed, list):
        return None
    changes = [
        f"{verb} {join_words([name(str(it)) for it in topics])}"
        for verb, topics in (("added", added), ("dropped", removed))
        if topics
    ]
    who = str(item.get("member_id") or "a member")
    return f"{name(who)} {' and '.join(changes)} in its subscription." if changes else None


def _partitions_sentence(item: Evidence) -> str | None:
    topics = item.get("topics")
    if not isinstance(topics, dict) or not all(isinstance(it, list) and len(it) == 2 for it in topics.values()):
        return None
    changed = [f"{name(str(topic))} went from {old} to {new} partitions" for topic, (old, new) in topics.items()]
    return f"{join_words(changed)}." if changed else None


def _assignor_sentence(item: Evidence) -> str | None:
    before, after = item.get("before"), item.get("after")
    if not before or not after:
        return None
    return f"A static member joined again with other assignors: from {name(str(before))} to {name(str(after))}."


def _initialized_sentence(item: Evidence) -> str | None:
    ready = int_field(item, "partitions")
    if ready is None:
        return None
    return f"Members could be given {count(ready, 'partition')} more: the share group's state of these had been made."


def _migration_sentence(item: Evidence) -> str:
    if item.get("to") == "classic":
        return "The group changed from KIP-848 to the classic protocol."
    return "The group changed from the classic protocol to KIP-848."


_WRITERS: dict[str, Callable[[Evidence], str | None] | _DurationSentence | str | None] = {
    # What the line of the rebalance or its departures say already.
    "joined": None,
    "commit_gap": None,
    SAMPLED_GAP: None,
    "generation_gap": None,
    "withheld": _withheld_sentence,
    "subscription": _subscription_sentence,
    "partitions": _partitions_sentence,
    "assignor": _assignor_sentence,
    "migration": _migration_sentence,
    "nobody_changed": ("No member joined, left or changed its subscription: then the topics are the only reason."),
    "partitions_initialized": _initialized_sentence,
    "nothing_changed": (
        "The members and their subscriptions are the same: the leader asked for a rebalance, or a member joined and "
        "left before it was complete."
    ),
    "internal_topics": (
        "The leader of a Streams group creates the internal topics with the first assignment, and joins again for "
        "them."
    ),
    "static_member_replaced": _DurationSentence(
        "gap_ms",
        "A static member joined again {} after its last commit; only a removed one triggers a rebalance.",
    ),
    "static_member_expired": (
        "It had left for a restart (member epoch -2) and did not join again within its session timeout."
    ),
    "static_member_away": _DurationSentence(
        "away_ms", "It had left for a restart (member epoch -2), and was removed {} later."
    ),
    "broker_log": _broker_log_sentence,
    "admin_api": _admin_api_sentence,
}
