"""The answer before the story, in at most `MAX_WORDS` words: what happened, whether it is over, how the group is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agent.core.causes import TIMEOUT_CAUSES, Cause, cause_info
from agent.core.protocol.client_libraries import spell_settings
from agent.core.protocol.states import GroupState
from agent.presentation.narrative.context import StoryContext
from agent.presentation.narrative.events import Departure, Event
from agent.presentation.narrative.findings import severity_rank
from agent.presentation.narrative.gains import best_gain_sentence
from agent.presentation.narrative.origins import (
    answer_clause,
    contradiction_clause,
    is_contradiction,
    is_trouble,
    unexplained,
)
from agent.presentation.narrative.paragraphs import causes_phrase
from agent.presentation.narrative.patterns import CrashLoop, find_crash_loops, rolling_restart_phrase
from agent.presentation.narrative.phrases import NO_PROBLEM, is_simple, went
from agent.presentation.narrative.totals import Totals
from agent.presentation.narrative.words import (
    Calendar,
    about,
    at_least,
    capitalized,
    certainty,
    count,
    duration,
    grouped,
    join_words,
    name,
    sentence,
    times,
    timestamp,
    within_words,
    word_count,
)
from analyzers.formatting import count_text

MAX_WORDS = 25
"""Words of the answer: nobody reads a longer one twice. What does not fit is below it."""

REPEATED_FROM = 3
"""From so many departures of one client on it is a loop, whatever the reasons."""

STATIC_LOOP_MS = 1_800_000
"""So often within this time is no deploy: as `rebalance_storm` counts departures of one client (loop_window_s)."""

BEHIND_FROM_S = 120.0
"""Who is so far behind has a problem, found or not: ends are looked up every 30 s, and clients commit more often."""

UNSETTLED_FROM_MS = 120_000
"""A rebalance that goes on for longer waits for a member that does not give up what it has to, or for a topic."""

TAIL_RECORDS = 10
"""Of a lag of so many records age says nothing: transactions end with markers, which no client consumes."""

DEPARTURE_ANALYZERS = (
    "session_timeout",
    "poll_timeout",
    "rejoin_timeout",
    "rebalance_storm",
    "static_membership_advice",
)
"""Analyzers that find what is told here from the departures themselves."""


def summary(scene: StoryContext) -> str:
    """The answer: the problem or that there is none, then as much of the rest as `MAX_WORDS` allows."""
    return within_words(_beyond(scene) or _timeouts(scene) or _worst_finding(scene) or _no_problem(scene), MAX_WORDS)


def _beyond(scene: StoryContext) -> list[str]:
    """Where nobody could know of the range: how it is now says nothing of it."""
    if scene.beyond is None:
        return []
    return [f"Nothing is known of {scene.who} in that time: {scene.beyond}.", *_state(scene)]


def _timeouts(scene: StoryContext) -> list[str]:
    """Members that were lost to timeouts, repeatedly or at all; nothing where something worse is found."""
    loops = _loops(scene.totals)
    lost = [gone for gone in scene.totals.departures if gone.cause in TIMEOUT_CAUSES or is_trouble(gone)] or [
        it for loop in loops for it in loop.losses
    ]
    worst = _worst(scene.open_findings)
    if not lost or (
        worst is not None and worst["severity"] == "critical" and worst["analyzer"] not in DEPARTURE_ANALYZERS
    ):
        return []
    if loops:
        loop = loops[0]
        more = len(loops) - 1
        return [
            _removal(name(loop.client), loop.losses, scene, times(len(loop.losses)) + scene.when_known),
            f"It joined again {times(loop.returns)}.",
            *([f"{capitalized(count(more, 'other client'))} left repeatedly, too."] if more else []),
            *_state(scene),
        ]
    who = name(lost[0].member.label) if len(lost) == 1 else count(len(lost), "member")
    return [_removal(who, lost, scene, _when(lost, scene.calendar)), *_return_sentence(lost, scene), *_state(scene)]


def _removal(who: str, lost: Sequence[Departure], scene: StoryContext, when: str) -> str:
    """`a` was removed from `g` at some time: why, and how sure that is."""
    if (happened := answer_clause(lost, who)) is not None:
        return f"{who} {_departed(lost, scene, when, who)}: {happened}."
    causes = Counter(gone.cause for gone in lost)
    known = [gone for gone in lost if gone.cause != Cause.UNKNOWN_DEPARTURE]
    sure = f" ({_certainty(known)})" if known else ""
    is_many = not who.startswith("`")
    if len(lost) == 1 and is_contradiction(lost[0]):
        return f"{who} {_departed(lost, scene, when, who)}{sure}{contradiction_clause(lost[0])}."
    if len(causes) == 1 and not any(map(is_trouble, lost)):
        answer = cause_info(lost[0].cause).answer
        said = f"left {scene.who} {when}" if answer is None else answer[is_many].format(group=scene.who, when=when)
        return spell_settings(f"{who} {said}{sure}.", {it.member.library for it in lost})
    found = Counter(_departure_noun(gone) for gone in lost)
    ways = [f"{noun} ({n})" for noun, n in found.most_common()]
    return f"{who} left {scene.who} {when}: {join_words(ways)}{sure}."


def _departed(lost: Sequence[Departure], scene: StoryContext, when: str, who: str) -> str:
    """`was removed from x at some time`, of all that were lost."""
    answers = {cause_info(gone.cause).answer for gone in lost}
    answer = answers.pop() if len(answers) == 1 else None
    if answer is None:
        return f"left {scene.who} {when}"
    return answer[not who.startswith("`")].partition(": ")[0].format(group=scene.who, when=when)


def _departure_noun(gone: Departure) -> str:
    if gone.member.origin is not None and is_trouble(gone):
        return gone.member.origin.words
    noun = cause_info(gone.cause).departure_noun
    return "unknown reason" if noun is None else noun[0].lower()


def _certainty(lost: Sequence[Departure]) -> str:
    inferred = [it.confidence for it in lost if not it.observed]
    return certainty(min(*inferred, 0.99)) if inferred else "observed"


def _loops(told: Totals) -> list[CrashLoop]:
    """Clients that leave and join again repeatedly, whether or not it is known each time how they left."""
    often = [
        it
        for it in find_crash_loops(told.rebalances, (*TIMEOUT_CAUSES, Cause.UNKNOWN_DEPARTURE))
        if len(it.losses) >= REPEATED_FROM
    ]
    return often or find_crash_loops(told.rebalances)


def _when(gone: Sequence[Departure], calendar: Calendar) -> str:
    first, last = gone[0].at_ms, gone[-1].at_ms
    same = calendar.at(first) == calendar.at(last)
    return f"at {calendar.at(first)}" if same else calendar.between(first, last)


def _return_sentence(lost: Sequence[Departure], scene: StoryContext) -> list[str]:
    """Whether they joined again, as far as their names tell."""
    clients = {(gone.member.label, gone.member.host): gone.at_ms for gone in lost}
    if len(clients) < len(lost):
        # Several members under one name: nothing tells which of them a later one is.
        return []
    back = {
        (it.label, it.host): done.at_ms
        for done in reversed(scene.totals.rebalances)
        for it in done.joined
        if done.at_ms >= clients.get((it.label, it.host), done.at_ms + 1)
    }
    if len(lost) == 1:
        return [f"It joined again at {scene.calendar.at(*back.values())}." if back else "It has not joined again."]
    if len(back) == len(lost):
        return ["All joined again."]
    return [f"{len(back)} joined again." if back else "None joined again."]


def _worst(found: Sequence[Event]) -> Event | None:
    return min(found, key=lambda event: severity_rank(event["severity"]), default=None)


def _worst_finding(scene: StoryContext) -> list[str]:
    """The worst of what the analyzers hold open."""
    worst, more = _worst(scene.open_findings), len(scene.open_findings) - 1
    if worst is None:
        return []
    rest = f"{capitalized(count(more, 'more finding'))} {'is' if more == 1 else 'are'} open." if more else ""
    if worst["severity"] == "info" and not more:
        rest = " ".join(_unexplained(scene)) or "Nothing else was found."
        if scene.is_unknown:
            rest = _unknown_sentence(scene)
    # Its text is of when it opened or grew worse: of members that may be gone, of fewer cases than there are by now.
    as_of, state = f"As of {scene.calendar.at(worst['at_ms'])}: ", _state(scene)
    first = state if scene.is_empty else []
    room = MAX_WORDS - word_count(" ".join([*first, as_of]))
    return [*first, as_of + within_words([sentence(worst["summary"])], room), rest, *(state if not first else [])]


def _no_problem(scene: StoryContext) -> list[str]:
    """Where nothing is found to be wrong, which is no all-clear where something is not explained."""
    who, told, form = scene.who, scene.totals, scene.form
    over = _resolved_sentence(scene)
    left = _last_departures(scene) if scene.is_empty else ()
    unsettled = _state(scene) if _is_unsettled(scene) else []
    state = [] if unsettled else _state(scene)
    doubts = [*unsettled, *_unexplained(scene, left)]
    clean = doubts or [f"{NO_PROBLEM.format(group=who)}."]
    if scene.is_unknown:
        return [_unknown_sentence(scene), *over, *_state(scene)]
    if form is None:
        if scene.deleted_ms is not None:
            return [
                f"{who} was deleted at {timestamp(scene.deleted_ms)} UTC.",
                *over,
                *(doubts or ["No problem was found."]),
            ]
        return [*clean, *over] if not scene.asked.is_state_known else [f"{who} no longer exists.", *over, *doubts]
    if is_simple(form):
        has = "it has no members and only commits offsets."
        return [*doubts, capitalized(has), *over] if doubts else [f"{NO_PROBLEM.format(group=who)}: {has}", *over]
    if scene.is_empty:
        none = [] if unexplained(left) else [f"No {'other ' if over else ''}problem was found."]
        return [_emptied_sentence(scene), *over, *(doubts or none)]
    if not told.rebalances:
        when = scene.when_known or f" in {duration(scene.until_ms - scene.since_ms)}"
        return [" ".join([*clean, f"It did not rebalance{when}."]), *over, *state]
    restarts = rolling_restart_phrase(told.rebalances)
    often = f"It rebalanced {times(len(told.rebalances))}{scene.when_known}"
    if restarts:
        return [*clean, f"{often}: {restarts}.", *over, *state, best_gain_sentence(scene.gains)]
    why = causes_phrase(told.causes)
    why = f": {why}" if len(told.causes) > 1 else f", {why}" if why.startswith("each") else f" {why}"
    return [*clean, *_first_fitting(f"{often}{why}.", f"{often}."), *over, *state]


def _is_unsettled(scene: StoryContext) -> bool:
    """Whether its newest rebalance goes on for longer than members that work need for it."""
    form = scene.form
    if form is None or is_simple(form) or form["state"] in (GroupState.STABLE, GroupState.EMPTY):
        return False
    since_ms: int = form["state_since_ms"]
    return since_ms > 0 and scene.asked.now_ms - since_ms >= UNSETTLED_FROM_MS


def _unexplained(scene: StoryContext, told: Sequence[Departure] = ()) -> list[str]:
    """What speaks against an all-clear: that it is behind, and what is not known of who left and why it rebalanced.

    `told` are departures of which it is said already. That a group was there before the log began is no such thing.
    """
    members = unexplained(scene.totals.departures) - unexplained(told)
    rebalances = sum(it.cause == Cause.UNKNOWN and not it.is_beginning for it in scene.totals.rebalances)
    what = [f"why {count(members, 'other member' if unexplained(told) else 'member')} left"] if members else []
    if rebalances:
        what.append(f"what triggered {count(rebalances, 'rebalance')} of")
    said = [*_behind_sentence(scene), *_static_returns_sentence(scene)]
    return [*said, *([f"It is not known {join_words(what)} {scene.who}."] if what else [])]


def _static_returns_sentence(scene: StoryContext) -> list[str]:
    """Static members that are started again and again: no rebalance shows it, but their partitions wait each time."""
    returned: dict[str, list[int]] = {}
    for event in (it for entry in scene.entries for it in entry.events if it["type"] == "static_member_replaced"):
        returned.setdefault(event["member"].get("instance_id") or "", []).append(event["at_ms"])
    often = {
        instance: len(times_ms)
        for instance, times_ms in returned.items()
        if any(
            times_ms[at] - times_ms[at - REPEATED_FROM + 1] <= STATIC_LOOP_MS
            for at in range(REPEATED_FROM - 1, len(times_ms))
        )
    }
    if not often:
        return []
    most = max(often, key=lambda it: often[it])
    others = f", and {count(len(often) - 1, 'other static member')} at least 3 times" if len(often) > 1 else ""
    return [f"{name(most)} (static) joined again {times(often[most])}{others}."]


def _behind_sentence(scene: StoryContext) -> list[str]:
    """How far it is behind, where its lag is known and is more than commits and looks at the ends account for."""
    if scene.form is None:
        return []
    held = {
        (topic, partition)
        for member in scene.form["members"]
        for topic, partitions in member.get("assignment", {}).items()
        for partition in partitions
    }
    known = [
        it for it in scene.form["offsets"] if it.get("lag_seconds") is not None and (it["lag"] or 0) > TAIL_RECORDS
    ]
    # Positions that no member holds any more may be left from long ago.
    lags = [it for it in known if (it["topic"], it["partition"]) in held] if held else known
    longest = max(lags, key=lambda it: it["lag_seconds"], default=None)
    if longest is None or longest["lag_seconds"] < BEHIND_FROM_S:
        return []
    lasted = at_least(about(round(1_000 * longest["lag_seconds"])), longest["lag_seconds_at_least"])
    why = " for an unknown reason" if scene.form["members"] else ""
    return [f"{scene.who} is {lasted} behind ({count_text(sum(it['lag'] for it in lags), 'record')}){why}."]


def _unknown_sentence(scene: StoryContext) -> str:
    """Where no event of the range is kept."""
    before = timestamp(scene.asked.lost_before_ms or 0)
    return f"What happened in {scene.who} before {before} UTC is not known: the agent keeps only the latest events."


def _first_fitting(long: str, short: str) -> list[str]:
    return [long if word_count(long) <= MAX_WORDS - 8 else short]


def _resolved_sentence(scene: StoryContext) -> list[str]:
    """What was found and is over."""
    worst, more = _worst(scene.resolved_findings), len(scene.resolved_findings) - 1
    if worst is None:
        return []
    if not more:
        return [f"{worst['analyzer']} was open, and is resolved."]
    return [f"{worst['analyzer']} and {count(more, 'other finding')} were open, and are resolved."]


def _last_departures(scene: StoryContext) -> Sequence[Departure]:
    """Who left with the newest rebalance, if it was the last."""
    last = scene.totals.rebalances[-1:]
    return () if not last or last[0].members else last[0].left


def _emptied_sentence(scene: StoryContext) -> str:
    """Since when it has no members, and how the last ones left, as far as the range tells."""
    left = _last_departures(scene)
    if not left:
        return f"{scene.who} has no members."
    number, ways = len(left), grouped(left, lambda gone: gone.cause)
    since = f"{scene.who} has been Empty since {scene.calendar.at(left[0].at_ms)}, when its last"
    who = "member" if number == 1 else f"{number} members"
    if len(ways) > 1:
        unknown = len(ways.get(Cause.UNKNOWN_DEPARTURE, ()))
        return f"{since} {who} left" + (f", {unknown} for an unknown reason." if unknown else ".")
    (cause,) = ways
    return f"{since} {who} {went(cause, number)}{', as in a normal stop' if cause == Cause.MEMBER_LEFT else ''}."


def _state(scene: StoryContext) -> list[str]:
    """How the group is."""
    form, who = scene.form, scene.who
    if form is None:
        if scene.deleted_ms is not None:
            return ["The group was deleted."]
        return [f"{who} no longer exists."] if scene.asked.is_state_known else []
    if is_simple(form):
        return []
    state = form["state"]
    if state not in ("Stable", "Empty") and form["state_since_ms"] > 0:
        state += f" for {duration(max(scene.asked.now_ms - form['state_since_ms'], 0))}"
    members = f" with {count(len(form['members']), 'member')}" if form["members"] else ""
    if scene.asked.is_live:
        return [f"{who} is {state}{members}."]
    until_ms = scene.asked.until_ms
    # Of a range that ends before, the end would be taken for its own.
    of_log = " of the log" if until_ms is not None and until_ms < scene.asked.now_ms else ""
    return [f"{who} was {state}{members} at the end{of_log}."]
