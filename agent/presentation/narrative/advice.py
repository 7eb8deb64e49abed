"""What to do: at most `MAX_ITEMS` items, ranked by what they save, each with its setting, its price and its runbook.

Items come from open findings, from rules on causes (here, with their thresholds) and from settings that were replayed
(`gains.py`). Of several about one setting the best ranked stays. They are ranked so: critical findings first; then by
the stopped partition time that each saves, which for a setting that was replayed is the difference that it made, for
a cause all that the rebalances with that cause cost; then by severity. Settings are written as the clients' library
spells them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct

from agent.config.broker_settings import SESSION_NAMES
from agent.core.causes import TIMEOUT_CAUSES, Cause
from agent.core.inference.origin_advice import origin_advice
from agent.core.protocol.client_libraries import (
    COOPERATIVE,
    SETTINGS,
    STATIC_MEMBERSHIP,
    StallEnd,
    lacks,
    library_named,
    spell_settings,
)
from agent.presentation.narrative import gains as gained
from agent.presentation.narrative.context import StoryContext
from agent.presentation.narrative.events import Departure, Event, int_field
from agent.presentation.narrative.findings import severity_rank
from agent.presentation.narrative.origins import by_kind, is_trouble
from agent.presentation.narrative.patterns import find_crash_loops, find_restarts
from agent.presentation.narrative.phrases import EAGER, went
from agent.presentation.narrative.totals import Totals
from agent.presentation.narrative.words import (
    count,
    duration,
    duration_range,
    first_sentence,
    grouped,
    join_words,
    name,
    sentence,
)
from analyzers.formatting import truncated

MAX_ITEMS = 3
"""More than this nobody does."""

RUNBOOKS = "docs/runbooks.md"
RUNBOOK_OF = {
    "autoscaler_storm": "kshadowautoscalerstorm",
    "coordinator_hotspot": "coordinatorhotspot",
    "idle_members": "kshadowidlemembers",
    "mixed_subscription": "kshadowimbalance",
    "orphaned_offsets": "kshadowgroupempty",
    "poll_timeout": "kshadowpollstalls",
    "rebalance_storm": "kshadowrebalancestorm",
    "rejoin_timeout": "kshadowrejointimeouts",
    "session_timeout": "kshadowsessiontimeouts",
    "stalled_consumer": "kshadowconsumerstalled",
    "static_membership_advice": "kshadowrebalancestorm",
    "timestamps_ahead": "kshadowtimestampsahead",
    "unbalanced_assignment": "kshadowimbalance",
}
"""By analyzer, the section of the runbooks; None without one."""

CAUSES_OF = {
    "session_timeout": (Cause.SESSION_TIMEOUT,),
    "poll_timeout": (Cause.POLL_TIMEOUT,),
    "rejoin_timeout": (Cause.REJOIN_TIMEOUT,),
    "rebalance_storm": tuple(Cause),
    "mixed_subscription": (Cause.SUBSCRIPTION_CHANGED,),
}
"""By analyzer, the causes whose rebalances its advice prevents."""

STORM_OF_CAUSE = {
    "crash_loop": "session_timeout",
    "flapping_sessions": "session_timeout",
    "poll_stalls": "poll_timeout",
}
"""Patterns of `rebalance_storm` whose advice is that of an analyzer that looks closer."""

REPEATED_FROM = 2
"""From how many times on a cause is no single event."""

EAGER_MIN_STOPPED_MS = 60_000
EAGER_MIN_SHARE = 0.01
"""From how much stopped partition time on, of all or as a share, another assignor is worth the change."""

NEVER_COMPLETED_FROM = 3
"""From how many rebalances that never completed on it is no single stumble at a start."""

_WARNING = severity_rank("warning")


class Advice(Struct, frozen=True):
    """One thing to do. `about` is what it changes (settings by Java's names, causes): of two about the same one is
    given. `saves_ms` is stopped partition time; `severity` a rank, 0 the worst."""

    text: str
    about: frozenset[str]
    saves_ms: int = 0
    severity: int = _WARNING
    runbook: str | None = None

    @property
    def line(self) -> str:
        """As it is shown: with its runbook."""
        return f"{self.text} See {RUNBOOKS}#{self.runbook}." if self.runbook else self.text


def advise(scene: StoryContext) -> list[Advice]:
    """The best items for a range, the best first."""
    found = [*_of_findings(scene), *_of_causes(scene), *_of_gains(scene)]
    found = [*_of_origins(scene.totals, found), *found]
    ranked = sorted(found, key=lambda it: (it.severity > 0, -it.saves_ms, it.severity))
    out: list[Advice] = []
    for it in ranked:
        if not any(it.about & chosen.about or it.text in chosen.text or chosen.text in it.text for chosen in out):
            out.append(it)
    return out[:MAX_ITEMS]


def _of_origins(totals: Totals, others: Sequence[Advice]) -> list[Advice]:
    """What Kubernetes tells names what to change: where it tells it of most departures of a cause, in the place of
    what would be looked for otherwise."""
    out = []
    for kind, same in by_kind(totals.departures).items():
        origins = [it.member.origin for it in same if it.member.origin is not None]
        causes = {it.cause for it in same}
        text = origin_advice(origins, without_goodbye=Cause.SESSION_TIMEOUT in causes)
        if text is None:
            continue
        instead = {cause for cause in causes if 2 * sum(it.cause == cause for it in same) > len(_lost(totals, cause))}
        replaced = [it for it in others if it.about & instead]
        out.append(
            Advice(
                text,
                frozenset({kind, *instead}),
                max([_stopped_ms(totals, causes), *(it.saves_ms for it in replaced)]),
                min([_WARNING, *(it.severity for it in replaced)]),
                RUNBOOK_OF["session_timeout"],
            )
        )
    return out


def _of_findings(scene: StoryContext) -> list[Advice]:
    open_now = {it["analyzer"]: it for it in scene.open_findings}
    return [
        _of_finding(it, scene)
        for it in scene.open_findings
        if it["advice"]
        and (it["analyzer"] != "rebalance_storm" or STORM_OF_CAUSE.get(_pattern(it), "") not in open_now)
    ]


def _of_finding(event: Event, scene: StoryContext) -> Advice:
    analyzer, text = event["analyzer"], sentence(event["advice"])
    saves_ms = _stopped_ms(scene.totals, CAUSES_OF.get(analyzer, ()))
    about = {analyzer}
    if analyzer == "static_membership_advice":
        saved_s = _numbers(event).get("stopped_partition_s_saved")
        saves_ms, about = 1000 * saved_s if isinstance(saved_s, int) else 0, set(STATIC_MEMBERSHIP)
    about |= {it for it in SETTINGS if it in text and it != STATIC_MEMBERSHIP[0]}
    text = _with_later(text, event, scene)
    rank = severity_rank(event["severity"])
    return Advice(text, frozenset(about), saves_ms, rank, RUNBOOK_OF.get(analyzer))


def _with_later(text: str, event: Event, scene: StoryContext) -> str:
    """An advice that names members, in its first sentence also those that were lost alike since it was written."""
    numbers, at_ms = _numbers(event), event["at_ms"]
    told = {*_texts(numbers, "instance_ids"), *_texts(numbers, "clients")}
    if not any(re.search(rf"(?<!\w){re.escape(it)}(?!\w)", text) for it in told):
        return text
    told |= {truncated(_seat(gone)) for gone in _lost(scene.totals, event["analyzer"]) if gone.at_ms <= at_ms}
    later = [who for gone in scene.departures_since(event) if truncated(who := _seat(gone)) not in told]
    if not later:
        return text
    names = join_words(list(dict.fromkeys(map(name, later))))
    first = first_sentence(text)
    too = f"; since {scene.calendar.at(at_ms)}, {names} {went(event['analyzer'], len(later))}, too."
    return first.removesuffix(".") + too + text.removeprefix(first)


def _seat(gone: Departure) -> str:
    """How findings call it."""
    return gone.member.instance_id or gone.member.label


def _texts(numbers: Mapping[str, Any], field: str) -> list[str]:
    """Names that a finding's numbers list."""
    names = numbers.get(field)
    return [it for it in names if isinstance(it, str)] if isinstance(names, list) else []


def _pattern(event: Event) -> str:
    return str(_numbers(event).get("pattern"))


def _numbers(event: Event) -> Mapping[str, Any]:
    """What a finding rests on; of a file, it may be anything."""
    numbers = event.get("numbers")
    return numbers if isinstance(numbers, dict) else {}


def _of_gains(scene: StoryContext) -> list[Advice]:
    """Settings that a replay of this group's own history found to help."""
    if scene.gains is None:
        return []
    return [
        Advice(text, frozenset(names), saves_ms, runbook="kshadowrebalancestorm")
        for names, text, saves_ms in gained.advice(scene.gains, scene.libraries)
    ]


def _of_causes(scene: StoryContext) -> list[Advice]:
    covered = {it["analyzer"] for it in scene.open_findings}
    if scene.gains is not None and scene.gains.is_like_the_log:
        # What was replayed needs no rule of thumb.
        covered.add("whatif")
    out = []
    for covers, rule in _RULES:
        item = None if covers in covered else rule(scene.totals, scene.group_type)
        if item is not None:
            out.append(item)
    return out


def _stopped_ms(totals: Totals, causes: Collection[str]) -> int:
    """What the rebalances cost that have any of these causes."""
    return sum(it.stopped_ms or 0 for it in totals.rebalances if {it.cause, *it.causes} & set(causes))


def _lost(totals: Totals, cause: str) -> list[Departure]:
    return [gone for gone in totals.departures if gone.cause == cause]


def _session_setting(group_type: str | None) -> str:
    names = SESSION_NAMES.get(group_type or "")
    return "session.timeout.ms" if names is None else f"group.{names.timeout} on the brokers"


def _spelled(text: str, gone: Sequence[Departure]) -> str:
    """The settings as the library of those that left spells them."""
    return spell_settings(text, {it.member.library for it in gone})


def _libraries(totals: Totals) -> set[str]:
    """Those of all that left."""
    return {it.member.library for it in totals.departures}


def _session_timeout_advice(totals: Totals, group_type: str | None) -> Advice | None:
    lost = [it for it in _lost(totals, Cause.SESSION_TIMEOUT) if not is_trouble(it)]
    loops = [] if any(map(is_trouble, totals.departures)) else find_crash_loops(totals.rebalances)
    if not lost:
        return None
    # Where brokers do not answer, several are lost at once: to keep one of them stopped helps nobody.
    at_once = Counter(gone.at_ms for gone in lost)
    loops = [it for it in loops if any(at_once[gone.at_ms] < 2 for gone in it.losses)]
    saves_ms, runbook = _stopped_ms(totals, [Cause.SESSION_TIMEOUT]), RUNBOOK_OF["session_timeout"]
    if loops:
        text = (
            f"Find why {_clients(loops[0].losses)} stops (log, exit code, OOM kills, liveness probe), and keep it "
            "stopped until then; the price is its capacity."
        )
        return Advice(text, frozenset({"session_timeout"}), saves_ms, runbook=runbook)
    session = _session_timeouts(lost)
    now = f" (now {duration_range(session)})" if session else ""
    setting = _session_setting(group_type)
    text = (
        f"Find why {_clients(lost)} stopped sending heartbeats (log, exit code, OOM kills, liveness probe). If it "
        f"only paused, raise {setting}{now} above the pause; a dead member is then detected later."
    )
    return Advice(
        _spelled(text, lost), frozenset({"session_timeout", "session.timeout.ms"}), saves_ms, runbook=runbook
    )


def _poll_timeout_advice(totals: Totals, group_type: str | None) -> Advice | None:
    late = _lost(totals, Cause.POLL_TIMEOUT)
    if not late:
        return None
    limit = _evidence_values(late, "rebalance_timeout_ms")
    if {library_named(gone.member.library).stall_end for gone in late} != {StallEnd.REBALANCE_TIMEOUT}:
        limit = []
    now = f" (now {duration_range(limit)})" if limit else ""
    text = (
        f"Shorten the work of {_clients(late)} between two polls: lower max.poll.records (500 by default), or raise "
        f"max.poll.interval.ms{now} above the slowest batch; a stuck consumer is then detected later."
    )
    about = frozenset({"poll_timeout", "max.poll.interval.ms"})
    saves_ms = _stopped_ms(totals, [Cause.POLL_TIMEOUT])
    return Advice(_spelled(text, late), about, saves_ms, runbook=RUNBOOK_OF["poll_timeout"])


def _rejoin_timeout_advice(totals: Totals, group_type: str | None) -> Advice | None:
    late = _lost(totals, Cause.REJOIN_TIMEOUT)
    if not late:
        return None
    text = (
        f"Make {_clients(late)} stop its work when a rebalance begins, or raise rebalance.timeout.ms above its "
        "slowest record; rebalances then wait longer for a stuck member."
    )
    saves_ms = _stopped_ms(totals, [Cause.REJOIN_TIMEOUT])
    return Advice(_spelled(text, late), frozenset({"rejoin_timeout"}), saves_ms, runbook=RUNBOOK_OF["rejoin_timeout"])


def _rolling_restart_advice(totals: Totals, group_type: str | None) -> Advice | None:
    if group_type in ("share", "connect"):
        # Share groups have no static members; Connect has a delay of its own.
        return None
    away_ms = find_restarts(totals.rebalances)
    if len(away_ms) < REPEATED_FROM or lacks(STATIC_MEMBERSHIP, _libraries(totals)):
        return None
    gone = _lost(totals, Cause.MEMBER_LEFT)
    session, setting = _session_timeouts(gone), _session_setting(group_type)
    now = f" (now {duration_range(session)})" if session else ""
    text = "Set group.instance.id, an id of its own for each client"
    if session and max(away_ms) < min(session):
        text += (
            f": a restart within {setting}{now} then causes no rebalance; an instance that does not come back is "
            "noticed only after that."
        )
    else:
        # Where it is not known what is set, a number might be below it.
        longest = duration(max(away_ms)) if session else "the longest restart"
        text += (
            f", and {setting}{now} above {longest}: a restart then causes no rebalance; a dead member is detected "
            "later."
        )
    saves_ms = _stopped_ms(totals, [Cause.MEMBER_LEFT])
    return Advice(_spelled(text, gone), frozenset(STATIC_MEMBERSHIP), saves_ms, runbook="kshadowrebalancestorm")


def _eager_assignor_advice(totals: Totals, group_type: str | None) -> Advice | None:
    # Where a timeout triggered it, most of the stopped time is that of the member that was waited for.
    eager = [
        it for it in totals.rebalances if it.protocol in EAGER and it.stopped_ms and it.cause not in TIMEOUT_CAUSES
    ]
    stopped = sum(it.stopped_ms or 0 for it in eager)
    share = (totals.stopped_share or 0) * stopped / (totals.stopped_ms or 1)
    much = stopped >= EAGER_MIN_STOPPED_MS or share >= EAGER_MIN_SHARE
    if group_type != "classic" or len(eager) < REPEATED_FROM or not much or lacks(COOPERATIVE, _libraries(totals)):
        return None
    assignors = join_words(sorted({name(it.protocol or "") for it in eager}))
    text = (
        f"Set partition.assignment.strategy to the cooperative-sticky assignor (now {assignors}) if `kshadow whatif` "
        "shows that it helps here: partitions that do not move keep being consumed, but those that do take a second "
        "rebalance; the price is two rolling restarts."
    )
    text = _spelled(text, totals.departures)
    # What it saves only a replay tells: where every member restarts and every partition moves, it costs.
    return Advice(text, frozenset({"partition.assignment.strategy"}), runbook="kshadowrebalancestorm")


def _subscription_advice(totals: Totals, group_type: str | None) -> Advice | None:
    changed = sum(Cause.SUBSCRIPTION_CHANGED in it.causes for it in totals.rebalances)
    if changed < REPEATED_FROM:
        return None
    text = (
        f"Let all members run one version and subscribe to the same topics: subscriptions changed in "
        f"{count(changed, 'rebalance')}; the price is one deploy."
    )
    saves_ms = _stopped_ms(totals, [Cause.SUBSCRIPTION_CHANGED])
    return Advice(text, frozenset({"mixed_subscription"}), saves_ms, runbook="kshadowrebalancestorm")


def _never_completed_advice(totals: Totals, group_type: str | None) -> Advice | None:
    if totals.never_completed < NEVER_COMPLETED_FROM:
        return None
    text = (
        f"Start instances together, and raise group.initial.rebalance.delay.ms on the brokers: "
        f"{totals.never_completed} rebalances never completed; each new group then starts that much later."
    )
    return Advice(text, frozenset({"group.initial.rebalance.delay.ms"}), runbook="kshadowrebalancestorm")


def clients_phrase(gone: Sequence[Departure]) -> str:
    """Which clients, each once, as `a and b on c`."""
    hosts = grouped(gone, lambda it: it.member.host)
    labels = {host: list(dict.fromkeys(name(it.member.label) for it in same)) for host, same in hosts.items()}
    return join_words([f"{join_words(same)} on {host}" for host, same in labels.items()])


def _clients(gone: Sequence[Departure]) -> str:
    """The client, or how many."""
    labels = list(dict.fromkeys(it.member.label for it in gone))
    return name(labels[0]) if len(labels) == 1 else f"each of {count(len(labels), 'client')}"


def _evidence_values(gone: Sequence[Departure], field: str) -> list[int]:
    return [value for it in gone for item in it.evidence if (value := int_field(item, field)) is not None]


def _session_timeouts(gone: Sequence[Departure]) -> list[int]:
    """Their own, and those that brokers set for their group."""
    return [
        ms for field in ("session_timeout_ms", "group_session_timeout_ms") for ms in _evidence_values(gone, field)
    ]


_RULES: tuple[tuple[str, Callable[[Totals, str | None], Advice | None]], ...] = (
    ("session_timeout", _session_timeout_advice),
    ("poll_timeout", _poll_timeout_advice),
    ("rejoin_timeout", _rejoin_timeout_advice),
    ("whatif", _rolling_restart_advice),
    ("whatif", _eager_assignor_advice),
    ("mixed_subscription", _subscription_advice),
    ("rebalance_storm", _never_completed_advice),
)
"""Each with what says the same with more behind it: an analyzer, or `whatif` for a replay."""
