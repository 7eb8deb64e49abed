"""The answer to "what is it with this group?": its state, what happened, why, what it cost, what to change.

A structure first (`Story`), from that the text. Times in the text are UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent.core.causes import Cause, cause_info
from agent.presentation.narrative import gains as gained
from agent.presentation.narrative.advice import advice_from_causes
from agent.presentation.narrative.confidence import confidence_text
from agent.presentation.narrative.events import Departure, Event, Evidence, events_within
from agent.presentation.narrative.evidence import departure_evidence, evidence_sentences
from agent.presentation.narrative.gains import Gains
from agent.presentation.narrative.limitations import limitations
from agent.presentation.narrative.paragraphs import QUIET_MS, busy_paragraphs, causes_phrase
from agent.presentation.narrative.phrases import GROUP_TYPES, epochs, work
from agent.presentation.narrative.summary import SummaryContext, summary
from agent.presentation.narrative.timeline import TimelineEntry, timeline_entries
from agent.presentation.narrative.totals import Totals, totals_of
from agent.presentation.narrative.words import (
    Calendar,
    clock,
    count,
    duration,
    join_counted,
    name,
    percent,
    sentence,
    times,
    timestamp,
)

Form = Mapping[str, Any]

TITLES = {
    "state": "",
    "happened": "What happened",
    "why": "Why kshadow thinks so",
    "sure": "How sure it is",
    "cost": "What it cost",
    "finding": "What is found to be wrong",
}
"""The heading above each kind of paragraph, in their order."""
NEARLY_ALL_SHARE = 0.9
MIN_COST_MS = 1_000
"""Less stopped partition time is not worth asking where it came from."""
ADVICE_TITLE = "What to change"
LIMITATIONS_TITLE = "What kshadow could not see"


@dataclass(frozen=True, slots=True)
class StoryRequest:
    """What is asked: a group, and the range as far as it is bounded (epoch milliseconds).

    `now_ms` is the time up to which the events go; `live` says that this is now and not where files end.
    `complete_since_ms` is from when on the events are all there are, None if from the log's beginning. `of_agent`: an
    agent told them, and not the log.
    """

    group: str
    now_ms: int
    since_ms: int | None = None
    until_ms: int | None = None
    is_live: bool = False
    complete_since_ms: int | None = None
    of_agent: bool = False


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Some sentences of one kind (see `TITLES`), and the evidence objects that they rest on."""

    kind: str
    text: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Story:
    """The answer. `state` is Kafka's name of the group's present one, `Dead` once it is gone, None if not known.

    `summary` is the whole of it in one to three sentences.
    """

    group: str
    state: str | None
    summary: str
    since_ms: int
    until_ms: int
    paragraphs: tuple[Paragraph, ...]
    advice: tuple[str, ...]
    limitations: tuple[str, ...]
    numbers: Mapping[str, Any] = field(default_factory=dict)
    gains: Gains | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "group": self.group,
            "state": self.state,
            "summary": self.summary,
            "range": {"since_ms": self.since_ms, "until_ms": self.until_ms},
            "paragraphs": [
                {"kind": it.kind, "text": it.text, "evidence": [dict(item) for item in it.evidence]}
                for it in self.paragraphs
            ],
            "advice": list(self.advice),
            "not_seen": list(self.limitations),
            "numbers": dict(self.numbers),
            "whatif": None if self.gains is None else self.gains.to_json(),
        }

    def sections(self) -> list[tuple[str, list[str]]]:
        """The text: paragraphs under their headings; the first has none, and begins with the summary."""
        (first, texts), *rest = self.sections_without_summary()
        return [(first, [self.summary, *texts]), *rest]

    def sections_without_summary(self) -> list[tuple[str, list[str]]]:
        """The text without the summary: paragraphs under their headings; the first has none."""
        out = [(title, [it.text for it in self.paragraphs if it.kind == kind]) for kind, title in TITLES.items()]
        out += [(ADVICE_TITLE, list(self.advice)), (LIMITATIONS_TITLE, list(self.limitations))]
        return [(title, texts) for title, texts in out if texts]


def explain(
    asked: StoryRequest,
    events: Sequence[Event],
    findings: Sequence[Event],
    form: Form | None,
    *,
    gains: Gains | None = None,
) -> Story:
    """The story of one group.

    `events` are its own in order, up to now, `findings` the newest event of each finding on it that was open at some
    time in the range, `form` its describe form, None if it is not there any more. `gains`: what other settings would
    have made of it, where somebody has replayed it, or why nobody could.
    """
    # A broker's clock may be ahead of ours: what has happened is not to come.
    asked = replace(asked, now_ms=max([asked.now_ms, *(it["at_ms"] for it in events[-1:])]))
    until = asked.now_ms if asked.until_ms is None else min(asked.until_ms, asked.now_ms)
    ranged = events_within(events, asked.since_ms, until)
    since = asked.since_ms
    if since is None:
        since = ranged[0]["at_ms"] if ranged else until
    group_type = form["group_type"] if form is not None else events[-1]["group_type"] if events else None
    lines = [line for line in timeline_entries(ranged) if line.label != "finding"]
    told = totals_of(lines, 0 if form is None else form["partitions"], since, until)
    calendar = Calendar(since, until)
    open_now = [it for it in findings if it["state"] != "resolved"]
    deleted_ms = _deleted_ms(events)
    gains = gains if told.rebalances else None
    scene = SummaryContext(
        asked.group,
        group_type,
        form,
        deleted_ms,
        told,
        open_now,
        [it for it in findings if it["state"] == "resolved"],
        calendar,
        since,
        until,
        asked.now_ms,
        asked.is_live,
        gains,
    )
    likely = confidence_text(told, calendar, asked.of_agent)
    paragraphs = [
        Paragraph("state", _state_text(asked, events, form)),
        *_happened_paragraphs(told, lines, since, until, calendar, group_type),
        *_evidence_paragraphs(told),
        *([] if likely is None else [Paragraph("sure", likely)]),
        *_cost_paragraphs(told, calendar, group_type),
        *(_finding_paragraph(it, calendar, told) for it in findings),
    ]
    covered = {it["analyzer"] for it in open_now}
    if gains is not None and gains.has_numbers:
        # What a replay has tried needs no rule of thumb.
        covered.add("whatif")
    advice = [*dict.fromkeys(sentence(it["advice"]) for it in open_now if it["advice"])]
    advice += advice_from_causes(told, group_type, covered)
    unseen = limitations(told, lines, group_type, form, asked.complete_since_ms, calendar, asked.of_agent)
    if gains is not None:
        advice += gained.advice(gains)
        unseen += gained.limitations(gains)
    return Story(
        group=asked.group,
        state=form["state"] if form is not None else "Dead" if deleted_ms is not None else None,
        summary=summary(scene),
        since_ms=since,
        until_ms=until,
        paragraphs=tuple(paragraphs),
        advice=tuple(advice),
        limitations=tuple(unseen),
        numbers={**told.to_json(), "findings_open": len(open_now)},
        gains=gains,
    )


def _state_text(asked: StoryRequest, events: Sequence[Event], form: Form | None) -> str:
    who = name(asked.group)
    at_end = "" if asked.is_live else f"At the end of the log, {timestamp(asked.now_ms)} UTC, "
    if form is None:
        gone = _deleted_ms(events)
        if gone is None:
            return f"{at_end}{who} is not there any more; what is told of it is its past."
        return f"{at_end}{who} does not exist any more: it was deleted at {timestamp(gone)} UTC."
    group_type = form["group_type"]
    kind = GROUP_TYPES.get(group_type, f"{group_type} group")
    unit = f"{epochs(group_type)} {form['generation']}"
    since = ""
    if form["state_since_ms"] > 0:
        since = f" for {duration(max(asked.now_ms - form['state_since_ms'], 0))}"
    members, partitions = len(form["members"]), form["partitions"]
    if form["generation"] < 0:
        has = "which only commits offsets and has no members that the coordinator knows"
        return f"{at_end}{who} is a simple {kind}, {has}.{_last_commit_text(form, asked)}"
    if members:
        protocol = f", assignor {name(form['protocol'])}" if form.get("protocol") else ""
        has = f"with {count(members, 'member')} on {count(partitions, work(group_type))} at {unit}{protocol}"
    else:
        has = f"without members at {unit}"
    return f"{at_end}{who} is a {kind}, {form['state']}{since}, {has}.{_last_commit_text(form, asked)}"


def _last_commit_text(form: Form, asked: StoryRequest) -> str:
    last = form["last_commit_ms"]
    if last is None:
        return "" if form["group_type"] == "share" else " No offset is committed."
    ago = duration(max(asked.now_ms - last, 0))
    return f" Its last commit came {ago} {'ago' if asked.is_live else 'before'}."


def _deleted_ms(events: Sequence[Event]) -> int | None:
    last = next((event for event in reversed(events) if event["type"] != "finding"), None)
    return last["at_ms"] if last is not None and last["type"] == "group_deleted" else None


def _happened_paragraphs(
    told: Totals,
    lines: Sequence[TimelineEntry],
    since: int,
    until: int,
    calendar: Calendar,
    group_type: str | None,
) -> list[Paragraph]:
    if calendar.day is not None:
        span = f"on {calendar.day}, from {clock(since)} to {clock(until)} UTC ({duration(until - since)})"
    else:
        span = f"from {timestamp(since)} to {timestamp(until)} UTC ({duration(until - since)})"
    span = span[0].upper() + span[1:]
    if not lines:
        return [Paragraph("happened", f"{span}, nothing happened to the group: no rebalance, nobody came or went.")]
    if told.rebalances:
        why = causes_phrase(told.causes)
        first = f"{span}, the group rebalanced {times(len(told.rebalances))}: {why}."
    else:
        first = f"{span}, the group did not rebalance."
    busy = busy_paragraphs(lines, calendar, group_type)
    told_of = [Paragraph("happened", text, _evidence_of(its)) for text, its in busy]
    if len(busy) != 1 or len(busy[0][1]) == 1:
        told_of.insert(0, Paragraph("happened", first))
    elif calendar.day is not None:
        # One busy time is all there was: what it says is said for the whole, and the whole has a date.
        text = busy[0][0]
        told_of = [Paragraph("happened", f"On {calendar.day}, {text[0].lower()}{text[1:]}", told_of[0].evidence)]
    quiet_ms = until - lines[-1].at_ms
    if quiet_ms >= QUIET_MS:
        after = f"After {calendar.at(lines[-1].at_ms)} nothing more happened, for {duration(quiet_ms)}."
        told_of.append(Paragraph("happened", after))
    return told_of


def _evidence_of(lines: Sequence[TimelineEntry]) -> tuple[Evidence, ...]:
    return tuple(item for line in lines if line.rebalance is not None for item in line.rebalance.evidence)


def _evidence_paragraphs(told: Totals) -> list[Paragraph]:
    ways: dict[tuple[str, bool], list[Departure]] = {}
    for gone in told.departures:
        if gone.cause != Cause.UNKNOWN_DEPARTURE:
            ways.setdefault((gone.cause, gone.observed), []).append(gone)
    out = []
    for same in sorted(ways.values(), key=lambda gone: (gone[0].cause == Cause.MEMBER_LEFT, -len(gone))):
        because = departure_evidence(same)
        if because:
            evidence = tuple(item for gone in same for item in gone.evidence)
            out.append(Paragraph("why", f"{_evidence_subject(same)}: {_mid_sentence(' '.join(because))}", evidence))
    ids = {gone.member.member_id for gone in told.departures}
    rest = tuple(item for it in told.rebalances for item in it.evidence if str(item.get("member_id")) not in ids)
    said = evidence_sentences(rest)
    return [*out, Paragraph("why", " ".join(said), rest)] if said else out


def _evidence_subject(gone: Sequence[Departure]) -> str:
    """What the evidence is of: `Session timeouts of ...`."""
    cause = gone[0].cause
    one, many = cause_info(cause).departure_noun or (cause, cause)
    if len(gone) == 1:
        return f"{one} of {name(gone[0].member.label)}"
    return f"{many} of {join_counted(name(it.member.label) for it in gone)}"


def _mid_sentence(text: str) -> str:
    """What begins a sentence, within one."""
    return text[0].lower() + text[1:] if text.startswith(("Its ", "Each ", "It ", "Of ")) else text


def _cost_paragraphs(told: Totals, calendar: Calendar, group_type: str | None) -> list[Paragraph]:
    if not told.rebalances:
        return []
    noun = work(group_type)
    out = []
    if told.stopped_ms is not None and told.stopped_ms > 0:
        text = (
            f"Rebalances kept {noun}s from being worked on for {duration(told.stopped_ms)}, summed over the {noun}s"
        )
        if told.stopped_share is not None and told.partitions is not None:
            lasted = duration(told.with_members_ms)
            lasted = f"the {lasted} in which the group had members" if told.empty_ms else lasted
            text += (
                f": {percent(told.stopped_share)} of what {count(told.partitions, noun)} could have worked in "
                f"{lasted}"
            )
        out.append(f"{text}.")
        out += _costliest_sentence(told, calendar, group_type)
    elif told.stopped_ms == 0:
        out.append(f"No {noun} stood still for a rebalance.")
    if told.empty_ms:
        apart = ", which is not in that sum" if told.stopped_ms else ""
        out.append(f"For {duration(told.empty_ms)} the group had no member at all{apart}.")
    return [Paragraph("cost", " ".join(out))] if out else []


def _costliest_sentence(told: Totals, calendar: Calendar, group_type: str | None) -> list[str]:
    it = told.costliest
    if it is None or it.stopped_ms is None or not told.stopped_ms or len(told.rebalances) == 1:
        return []
    if told.stopped_ms < MIN_COST_MS:
        return []
    which = f"{epochs(group_type)} {it.generation} at {calendar.at(it.at_ms)}"
    if it.stopped_ms >= NEARLY_ALL_SHARE * told.stopped_ms:
        return [f"Nearly all of it came with {which}."]
    return [f"The dearest was {which}: {duration(it.stopped_ms)}."]


def _finding_paragraph(event: Event, calendar: Calendar, told: Totals) -> Paragraph:
    since = calendar.at(event["since_ms"])
    if event["state"] == "resolved":
        span, newer = f"open from {since} to {calendar.at(event['at_ms'])}", ""
    else:
        span, newer = f"open since {since}", _new_cases(event, calendar, told)
        if newer:
            # Its text is of when it opened or grew worse: nobody tells it anew with each case more.
            span += f", as of {calendar.at(event['at_ms'])}"
    text = f"{event['analyzer']} ({event['severity']}), {span}: {sentence(event['summary'])}{newer}"
    numbers = event.get("numbers")
    return Paragraph("finding", text, (numbers,) if isinstance(numbers, dict) and numbers else ())


def _new_cases(event: Event, calendar: Calendar, told: Totals) -> str:
    """What came since the finding's text was written; "" if nothing that it may tell of."""
    after = [it for it in told.rebalances if it.at_ms > event["at_ms"]]
    what = cause_info(event["analyzer"]).new_case
    if what is None:
        what, times_ms = "the group rebalanced", [it.at_ms for it in after]
    else:
        times_ms = [gone.at_ms for it in after for gone in it.left if gone.cause == event["analyzer"]]
    if not times_ms:
        return ""
    last = calendar.at(times_ms[-1])
    return f" Since then {what} {times(len(times_ms))}, {'at' if len(times_ms) == 1 else 'the last at'} {last}."
