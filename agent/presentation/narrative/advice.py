"""What to change, from causes alone: rules with their thresholds, each giving a sentence or two, or nothing.

Settings are named by the side that owns them. A rule that an open finding's analyzer covers says nothing then: the
finding has its own advice, with more behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

from agent.core.causes import TIMEOUT_CAUSES
from agent.core.protocol.client_libraries import (
    COOPERATIVE,
    STATIC_MEMBERSHIP,
    StallEnd,
    lacks,
    library_named,
    spell_settings,
)
from agent.presentation.narrative.events import Departure, int_field
from agent.presentation.narrative.patterns import find_crash_loops, rolling_restart_phrase
from agent.presentation.narrative.phrases import EAGER
from agent.presentation.narrative.totals import Totals
from agent.presentation.narrative.words import (
    capitalized,
    count,
    duration,
    duration_range,
    grouped,
    join_words,
    name,
    times,
)

SESSION_DEFAULT_MS = 45_000
"""Kafka's own default of session.timeout.ms since 3.0 (KIP-735)."""

REPEATED_FROM = 2
"""From how many times on a cause is no single event."""

EAGER_MIN_STOPPED_MS = 60_000
EAGER_MIN_SHARE = 0.01
"""From how much stopped partition time on, of all or as a share, another assignor is worth the change."""

NEVER_COMPLETED_FROM = 3
"""From how many rebalances that never completed on it is no single stumble at a start."""


def advice_from_causes(totals: Totals, group_type: str | None, covered: AbstractSet[str]) -> list[str]:
    """Advice for a range. `covered` are the analyzers that hold a finding open; and `whatif`, if its history was
    replayed under other settings."""
    out = []
    for covers, rule in _RULES:
        text = None if covered & covers else rule(totals, group_type)
        if text is not None:
            out.append(text)
    return out


def _session_timeout_advice(totals: Totals, group_type: str | None) -> str | None:
    lost = [gone for gone in totals.departures if gone.cause == "session_timeout"]
    if not lost:
        return None
    out = [
        f"Find out why {clients_phrase(lost)} fell silent: a crash, a kill for lack of memory, a long pause (garbage "
        "collection, a throttled CPU) or a lost network. Its own log of that time tells."
    ]
    session = _evidence_values(lost, "session_timeout_ms")
    if group_type == "consumer":
        out.append("The session timeout of such groups is the broker's: group.consumer.session.timeout.ms.")
    elif session and min(session) < SESSION_DEFAULT_MS and len(lost) >= REPEATED_FROM:
        out.append(
            f"If those were pauses and no deaths, raise session.timeout.ms from {duration_range(session)} towards "
            f"Kafka's "
            f"default of {duration(SESSION_DEFAULT_MS)}, with heartbeat.interval.ms at a third of it or less; a real "
            "death is then noticed that much later."
        )
    return _spelled(" ".join(out), lost)


def _spelled(text: str, gone: Sequence[Departure]) -> str:
    """The settings as the library of those that went spells them."""
    return spell_settings(text, {it.member.library for it in gone})


def _libraries(totals: Totals) -> set[str]:
    """Those of all that went."""
    return {it.member.library for it in totals.departures}


def _crash_loop_advice(totals: Totals, group_type: str | None) -> str | None:
    found = find_crash_loops(totals.rebalances)
    if not found:
        return None
    worst = found[0]
    text = (
        f"{name(worst.client)} on {worst.host} was lost {times(len(worst.losses))} and came back "
        f"{times(worst.returns)}. Until it stays up, let it wait longer before each restart: every return and every "
        "loss is a rebalance for the whole group."
    )
    more = len(found) - 1
    return f"{text} {count(more, 'other client')} did the same." if more else text


def _poll_timeout_advice(totals: Totals, group_type: str | None) -> str | None:
    late = [gone for gone in totals.departures if gone.cause == "poll_timeout"]
    if not late:
        return None
    limit = _evidence_values(late, "rebalance_timeout_ms")
    if {library_named(gone.member.library).stall_end for gone in late} != {StallEnd.REBALANCE_TIMEOUT}:
        limit = []
    within = f"max.poll.interval.ms ({duration_range(limit)})" if limit else "max.poll.interval.ms"
    return _spelled(
        f"It looks as if {clients_phrase(late)} took longer than {within} from one poll to the next, "
        f"{times(len(late))}. Give it less at a time (max.poll.records, 500 by default), make the work on one batch "
        "shorter, or raise max.poll.interval.ms above the longest that a batch may take.",
        late,
    )


def _rolling_restart_advice(totals: Totals, group_type: str | None) -> str | None:
    if group_type in ("share", "connect"):
        # Share groups have no static members; Connect has a delay of its own.
        return None
    found = rolling_restart_phrase(totals.rebalances)
    if not found or lacks(STATIC_MEMBERSHIP, _libraries(totals)):
        return None
    return (
        f"{capitalized(found)}. Static membership (a group.instance.id for each instance) with a session timeout "
        "above that time makes such a restart cost no rebalance at all."
    )


def _eager_assignor_advice(totals: Totals, group_type: str | None) -> str | None:
    # Where a timeout set it off, what stood longest were the partitions of the one that was waited for.
    eager = [
        it for it in totals.rebalances if it.protocol in EAGER and it.stopped_ms and it.cause not in TIMEOUT_CAUSES
    ]
    stopped = sum(it.stopped_ms or 0 for it in eager)
    share = (totals.stopped_share or 0) * stopped / (totals.stopped_ms or 1)
    much = stopped >= EAGER_MIN_STOPPED_MS or share >= EAGER_MIN_SHARE
    if group_type != "classic" or len(eager) < REPEATED_FROM or not much or lacks(COOPERATIVE, _libraries(totals)):
        return None
    assignors = join_words(sorted({name(it.protocol or "") for it in eager}))
    return (
        f"With {assignors} every member gives up all its partitions at each rebalance, which cost "
        f"{duration(stopped)} of partition time where no timeout set it off. With cooperative-sticky (change over in "
        "two rolling restarts), or with group.protocol=consumer on brokers from 4.0 on, partitions that do not move "
        "go on being worked on. How long a dead member's partitions wait stays the same."
    )


def _subscription_advice(totals: Totals, group_type: str | None) -> str | None:
    changed = sum("subscription_changed" in it.causes for it in totals.rebalances)
    if changed < REPEATED_FROM:
        return None
    return (
        f"Subscriptions changed in {count(changed, 'rebalance')}: see whether members run different versions, or "
        "subscribe by a pattern that new topics keep matching."
    )


def _never_completed_advice(totals: Totals, group_type: str | None) -> str | None:
    if totals.never_completed < NEVER_COMPLETED_FROM:
        return None
    return (
        f"{totals.never_completed} rebalances never completed: members came and went faster than a round takes. "
        "Start instances together, and let the broker wait for them: group.initial.rebalance.delay.ms."
    )


def clients_phrase(gone: Sequence[Departure]) -> str:
    """Who it was, each once, as `a and b on c`."""
    hosts = grouped(gone, lambda it: it.member.host)
    labels = {host: list(dict.fromkeys(name(it.member.label) for it in same)) for host, same in hosts.items()}
    return join_words([f"{join_words(same)} on {host}" for host, same in labels.items()])


def _rejoin_timeout_advice(totals: Totals, group_type: str | None) -> str | None:
    late = [gone for gone in totals.departures if gone.cause == "rejoin_timeout"]
    if not late:
        return None
    return _spelled(
        f"{capitalized(clients_phrase(late))} did not rejoin within the rebalance timeout, {times(len(late))}, and "
        "the group waited that long. Let its work stop or give up when a rebalance begins, make single pieces of "
        "it shorter, or raise rebalance.timeout.ms above what the slowest one takes.",
        late,
    )


def _evidence_values(gone: Sequence[Departure], field: str) -> list[int]:
    return [value for it in gone for item in it.evidence if (value := int_field(item, field)) is not None]


_RULES: tuple[tuple[frozenset[str], Callable[[Totals, str | None], str | None]], ...] = (
    (frozenset({"session_timeout"}), _session_timeout_advice),
    (frozenset({"session_timeout"}), _crash_loop_advice),
    (frozenset({"poll_timeout"}), _poll_timeout_advice),
    (frozenset({"rejoin_timeout"}), _rejoin_timeout_advice),
    (frozenset({"static_membership_advice", "whatif"}), _rolling_restart_advice),
    (frozenset({"whatif"}), _eager_assignor_advice),
    (frozenset({"mixed_subscription"}), _subscription_advice),
    (frozenset({"rebalance_storm"}), _never_completed_advice),
)
"""Each with what says the same with more behind it: analyzers, and `whatif` for a replay."""
