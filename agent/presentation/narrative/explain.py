"""The answer to "what is it with this group?": its state, what happened, why, what it cost, what to change.

A structure first (`Story`), from that the text. Times in the text are UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from agent.core.causes import Cause, cause_info
from agent.presentation.narrative.advice import advise
from agent.presentation.narrative.brief import BriefSection, brief_sections
from agent.presentation.narrative.confidence import confidence_text
from agent.presentation.narrative.context import Form, StoryContext
from agent.presentation.narrative.context import StoryRequest as StoryRequest
from agent.presentation.narrative.events import Departure, Event, Evidence
from agent.presentation.narrative.evidence import departure_evidence, evidence_sentences
from agent.presentation.narrative.gains import Gains, replayed
from agent.presentation.narrative.limitations import limitations
from agent.presentation.narrative.origins import origin_sentences
from agent.presentation.narrative.paragraphs import QUIET_MS, busy_paragraphs, causes_phrase
from agent.presentation.narrative.phrases import (
    GROUP_TYPES,
    epochs,
    generation_phrase,
    is_sampled,
    is_simple,
    unknown_costs,
    work,
)
from agent.presentation.narrative.staleness import reservations, stale_answer, unread_answer, unread_sentence
from agent.presentation.narrative.summary import summary
from agent.presentation.narrative.timeline import TimelineEntry
from agent.presentation.narrative.totals import Totals
from agent.presentation.narrative.words import (
    about,
    at_least,
    capitalized,
    clock,
    count,
    duration,
    grouped,
    join_counted,
    name,
    percent_at_least,
    sentence,
    times,
    timestamp,
)

TITLES = {
    "state": "",
    "happened": "What happened",
    "why": "Why",
    "sure": "How sure",
    "cost": "What it cost",
    "finding": "Findings",
    "whatif": "What other settings would have changed",
}
"""The heading above each kind of paragraph, in their order."""
NEARLY_ALL_SHARE = 0.9
MIN_COST_MS = 1_000
"""Less stopped partition time is not worth asking where it came from."""
ADVICE_TITLE = "What to do"
LIMITATIONS_TITLE = "What is not known"


class Paragraph(Struct, frozen=True):
    """Some sentences of one kind (see `TITLES`), and the evidence objects that they rest on."""

    kind: str
    text: str
    evidence: tuple[Evidence, ...] = ()


class Story(Struct, frozen=True):
    """The answer. `state` is Kafka's name of the group's present one, `Dead` once it is gone, None if not known.

    `summary` is the whole of it in at most 25 words (and before them, where it is of an earlier time, as of when),
    `brief` what fits on one screen: parts under their headings.
    `libraries` are those of its clients, as far as they are known.
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
    brief: tuple[BriefSection, ...] = ()
    libraries: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        """As the JSON that `kshadow explain -o json` prints."""
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
    """The explanation of one group.

    `events` are its own in order, up to now, `findings` the newest event of each finding on it that was open at some
    time in the range, `form` its describe form, None if it is not there any more. `gains`: what other settings would
    have made of it, where somebody has replayed it, or why nobody could.
    """
    scene = StoryContext.of(asked, events, findings, form, gains)
    likely = confidence_text(scene)
    stale = None if form is None else form.get("stale")
    unread = asked.unread_reason
    before = [
        *([unread_answer(asked.now_ms)] if unread else []),
        *([] if stale is None else [stale_answer(stale, asked.now_ms)]),
    ]
    paragraphs = [
        *([Paragraph("state", unread_sentence(asked.group, asked.now_ms, unread))] if unread else []),
        *(Paragraph("state", it) for it in reservations(form, asked.now_ms)),
        Paragraph("state", _state_text(scene)),
        *_happened_paragraphs(scene),
        *(Paragraph("why", *it) for it in origin_sentences(scene.totals.departures, scene.calendar)),
        *_evidence_paragraphs(scene.totals),
        *([] if likely is None else [Paragraph("sure", likely)]),
        *_cost_paragraphs(scene),
        *(_finding_paragraph(it, scene) for it in findings),
        *([] if scene.gains is None else [Paragraph("whatif", it) for it in replayed(scene.gains)]),
    ]
    advice = tuple(it.line for it in advise(scene))
    return Story(
        group=asked.group,
        state=form["state"] if form is not None else "Dead" if scene.deleted_ms is not None else None,
        summary=" ".join([*before, summary(scene)]),
        since_ms=scene.since_ms,
        until_ms=scene.until_ms,
        paragraphs=tuple(paragraphs),
        advice=advice,
        limitations=tuple(limitations(scene)),
        numbers={**scene.totals.to_json(), "findings_open": len(scene.open_findings)},
        gains=scene.gains,
        libraries=frozenset(scene.libraries),
        brief=brief_sections(scene, [it.text for it in paragraphs if it.kind == "why"], advice),
    )


def _state_text(scene: StoryContext) -> str:
    asked, form = scene.asked, scene.form
    end = f", {timestamp(asked.now_ms)} UTC" if scene.has_times else ""
    who = scene.who if asked.is_live else f"At the end of the log{end}, {scene.who}"
    if form is None:
        if scene.deleted_ms is None and not asked.is_state_known:
            return (
                f"The history ends at {timestamp(asked.now_ms)} UTC. It does not contain the state and the members "
                f"of {scene.who}."
            )
        if scene.deleted_ms is None:
            return f"{who} no longer exists. What follows is its past."
        return f"{who} no longer exists: it was deleted at {timestamp(scene.deleted_ms)} UTC."
    group_type = form["group_type"]
    kind = GROUP_TYPES.get(group_type, f"{group_type} group")
    last_commit = _last_commit_text(form, scene)
    if is_simple(form):
        has = "which only commits offsets and has no members"
        return f"{who} is a simple {kind}, {has}.{last_commit}"
    unit = "" if is_sampled(form) else f" at {epochs(group_type)} {form['generation']}"
    members, partitions = len(form["members"]), form["partitions"]
    if members:
        protocol = f", assignor {name(form['protocol'])}" if form.get("protocol") else ""
        has = f"with {count(members, 'member')} on {count(partitions, work(group_type))}{unit}{protocol}"
    else:
        has = f"without members{unit}"
    state = form["state"]
    if form["state_since_ms"] > 0 and scene.has_times:
        state += f" for {duration(max(asked.now_ms - form['state_since_ms'], 0))}"
    return f"{who} is a {kind}, {state}, {has}.{last_commit}"


def _last_commit_text(form: Form, scene: StoryContext) -> str:
    asked, last = scene.asked, form["last_commit_ms"]
    if last is None:
        if form["group_type"] == "share":
            return ""
        if not form["offsets"]:
            return " No offset is committed."
        return " No commit was seen." if is_sampled(form) else " When it last committed is not known."
    if not scene.has_times:
        return f" Its last commit was at {timestamp(last)} UTC."
    ago = duration(max(asked.now_ms - last, 0))
    is_now = asked.is_live and not asked.unread_reason
    return f" Its last commit was {ago} {'ago' if is_now else 'before'}."


def _happened_paragraphs(scene: StoryContext) -> list[Paragraph]:
    totals, calendar, since, until = scene.totals, scene.calendar, scene.since_ms, scene.until_ms
    if not scene.has_times:
        span = "At times that the records do not have"
    elif calendar.day is not None:
        span = f"On {calendar.day}, from {clock(since)} to {clock(until)} UTC ({duration(until - since)})"
    else:
        span = f"From {timestamp(since)} to {timestamp(until)} UTC ({duration(until - since)})"
    lost_before_ms = scene.asked.lost_before_ms
    if lost_before_ms is not None and scene.is_unknown:
        before = timestamp(lost_before_ms)
        said = f"Events before {before} UTC are not kept, so what happened in this range is not known."
        return [Paragraph("happened", said)]
    if scene.beyond is not None:
        return [Paragraph("happened", f"What happened in this range is not known: {scene.beyond}.")]
    if not scene.entries:
        return [Paragraph("happened", f"{span}, the group did not change: no rebalance, no member joined or left.")]
    busy = busy_paragraphs(scene.entries, calendar, scene.group_type)
    out = [Paragraph("happened", text, _evidence_of(its)) for text, its in busy]
    if len(busy) != 1 or len(busy[0][1]) == 1:
        why = (
            f"rebalanced {times(len(totals.rebalances))}: {causes_phrase(totals.causes)}" if totals.rebalances else ""
        )
        out.insert(0, Paragraph("happened", f"{span}, the group {why or 'did not rebalance'}."))
    elif calendar.day is not None:
        # One busy time is all there was: what it says is said for the whole, and the whole has a date.
        text = busy[0][0]
        out = [replace(out[0], text=f"On {calendar.day}, {text[0].lower()}{text[1:]}")]
    last_ms = scene.entries[-1].at_ms
    if until - last_ms >= QUIET_MS:
        after = f"The group did not change in the {duration(until - last_ms)} after {calendar.at(last_ms)}."
        out.append(Paragraph("happened", after))
    return out


def _evidence_of(lines: Sequence[TimelineEntry]) -> tuple[Evidence, ...]:
    return tuple(item for line in lines if line.rebalance is not None for item in line.rebalance.evidence)


def _evidence_paragraphs(totals: Totals) -> list[Paragraph]:
    known = (gone for gone in totals.departures if gone.cause != Cause.UNKNOWN_DEPARTURE)
    # What is said of some is not said of others of the same cause, as that a static one was to be restarted.
    ways = grouped(known, lambda gone: (gone.way, frozenset(str(it.get("kind")) for it in gone.evidence)))
    out = []
    for same in sorted(ways.values(), key=lambda gone: (gone[0].cause == Cause.MEMBER_LEFT, -len(gone))):
        because = departure_evidence(same)
        if because:
            evidence = tuple(item for gone in same for item in gone.evidence)
            out.append(Paragraph("why", f"{_evidence_subject(same)}: {_mid_sentence(' '.join(because))}", evidence))
    ids = {gone.member.member_id for gone in totals.departures}
    rest = tuple(item for it in totals.rebalances for item in it.evidence if str(item.get("member_id")) not in ids)
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
    return text[0].lower() + text[1:] if text.startswith(("Its ", "Each ", "It ", "None ", "Of ", "Some ")) else text


def _cost_paragraphs(scene: StoryContext) -> list[Paragraph]:
    totals, noun = scene.totals, work(scene.group_type)
    if not totals.rebalances:
        return []
    out, unknown = [], totals.rebalances_of_unknown_cost
    if totals.stopped_ms is not None and totals.stopped_ms > 0:
        lasted = at_least(about(totals.stopped_ms), unknown > 0)
        text = f"Rebalances stopped {noun}s for {lasted}, summed over the {noun}s"
        share = None if totals.stopped_share is None else percent_at_least(totals.stopped_share, unknown > 0)
        if share and totals.partitions is not None:
            lasted = duration(totals.with_members_ms)
            lasted = f"the {lasted} in which the group had members" if totals.empty_ms else lasted
            text += f": {share} of the time of {count(totals.partitions, noun)} in {lasted}"
        out += [f"{text}.", *_costliest_sentence(scene)]
    elif totals.stopped_ms == 0 and not unknown:
        out.append(f"No {noun} was stopped by a rebalance.")
    if unknown:
        out.append(f"{capitalized(unknown_costs(unknown, len(totals.rebalances)))}.")
    if totals.empty_ms:
        apart = ", which is not in that sum" if totals.stopped_ms else ""
        out.append(f"The group had no members for {duration(totals.empty_ms)}{apart}.")
    return [Paragraph("cost", " ".join(out))] if out else []


def _costliest_sentence(scene: StoryContext) -> list[str]:
    totals, it = scene.totals, scene.totals.costliest
    if it is None or it.stopped_ms is None or (totals.stopped_ms or 0) < MIN_COST_MS or len(totals.rebalances) == 1:
        return []
    which = f"{generation_phrase(scene.group_type, it.generation, 'the one')} at {scene.calendar.at(it.at_ms)}"
    if totals.rebalances_of_unknown_cost:
        return [f"The most expensive whose cost is known was {which}: {about(it.stopped_ms)}."]
    if it.stopped_ms >= NEARLY_ALL_SHARE * (totals.stopped_ms or 0):
        return [f"Nearly all of it was {which}."]
    return [f"The most expensive was {which}: {about(it.stopped_ms)}."]


def _finding_paragraph(event: Event, scene: StoryContext) -> Paragraph:
    at = scene.calendar.at
    if event["state"] == "resolved":
        span, newer = f"open from {at(event['since_ms'])} to {at(event['at_ms'])}", ""
    else:
        # Its text is of when it opened or grew worse.
        span, newer = f"open since {at(event['since_ms'])}, as of {at(event['at_ms'])}", _new_cases(event, scene)
    text = f"{event['analyzer']} ({event['severity']}), {span}: {sentence(event['summary'])}{newer}"
    numbers = event.get("numbers")
    return Paragraph("finding", text, (numbers,) if isinstance(numbers, dict) and numbers else ())


def _new_cases(event: Event, scene: StoryContext) -> str:
    """What came since the finding's text was written; "" if nothing that it may tell of."""
    what = cause_info(event["analyzer"]).new_case
    if what is None:
        what = "the group rebalanced"
        times_ms = [it.at_ms for it in scene.totals.rebalances if it.at_ms > event["at_ms"]]
    else:
        times_ms = [gone.at_ms for gone in scene.departures_since(event)]
    if not times_ms:
        return ""
    last = scene.calendar.at(times_ms[-1])
    return f" Since then {what} {times(len(times_ms))}, {'at' if len(times_ms) == 1 else 'the last at'} {last}."
