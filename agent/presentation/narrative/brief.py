"""An explanation on one screen: what happened, why, how sure, what to do. Who wants all asks for all.

Owns what stands there and in which order lines give way; `fit_screen` folds it to a screen's width and height.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from agent.core.causes import UNKNOWN_CAUSES, cause_info
from agent.presentation.narrative.advice import RUNBOOKS
from agent.presentation.narrative.confidence import assumed_session
from agent.presentation.narrative.context import StoryContext
from agent.presentation.narrative.events import Event
from agent.presentation.narrative.origins import unexplained
from agent.presentation.narrative.paragraphs import causes_phrase, departure_clauses
from agent.presentation.narrative.phrases import unknown_costs, work
from agent.presentation.narrative.words import (
    about,
    at_least,
    capitalized,
    certainty,
    count,
    first_sentences,
    join_words,
    percent_at_least,
    percent_range,
    sentence,
    span,
    timestamp,
)

SCREEN_WIDTH, SCREEN_LINES = 80, 23
"""A terminal's 24 lines less the one of the next prompt."""

LABEL_WIDTH = 15
"""Cells of the column of headings."""

ADVICE_CHARACTERS = 200
"""Of an advice its first sentences, as far as they go."""

MAX_ANSWER_LINES, MAX_TEXT_LINES = 4, 5

NEGLIGIBLE_MS = 1_000
"""Less stopped partition time than this is not worth a word here."""

Fold = Callable[[str, int], list[str]]
"""Folds a text into lines of at most so many cells."""


class BriefSection(NamedTuple):
    """A heading and its texts, the most important first. So many as `keep` stay where lines are short; fewer
    where otherwise texts would lose their ends."""

    title: str
    texts: tuple[str, ...]
    keep: int = 1


def brief_sections(scene: StoryContext, why: Sequence[str], advice: Sequence[str]) -> tuple[BriefSection, ...]:
    """What stands on the screen, below the answer. `why`: what the evidence says; `advice`: what to do."""
    to_do = map(_short_advice, advice)
    sections = (
        BriefSection("What happened", tuple(_happened(scene))),
        BriefSection("Why", tuple(_first_clause(it) for it in why)),
        BriefSection("How sure", tuple(_sure(scene))),
        BriefSection("What to do", tuple(f"{at}. {it}" for at, it in enumerate(to_do, 1)), keep=len(advice)),
    )
    return tuple(it for it in sections if it.texts)


def _first_clause(text: str) -> str:
    """What the evidence is, without how often a member had committed before."""
    return sentence(text.partition("; until then")[0])


def _short_advice(text: str) -> str:
    """Its first sentences, and where the runbook is."""
    said, see, where = text.rpartition(" See ")
    return f"{first_sentences(said, ADVICE_CHARACTERS)}{see}{where}" if said else text


def _happened(scene: StoryContext) -> list[str]:
    totals = scene.totals
    often = count(len(totals.rebalances), "rebalance")
    lost_before_ms = scene.asked.lost_before_ms
    why = f" {causes_phrase(totals.causes).removeprefix('each time ')}" if totals.rebalances else ""
    colon = ":" if len(totals.causes) > 1 else ""
    out = [f"{capitalized(often)} {span(scene.since_ms, scene.until_ms)}{colon}{why}."]
    if lost_before_ms is not None:
        out[0] += " Earlier events are not kept."
        if scene.is_unknown:
            out = [f"Not known: events before {timestamp(lost_before_ms)} UTC are not kept."]
    if scene.beyond is not None:
        out = [f"Not known: {scene.beyond}."]
    noun, unknown = work(scene.group_type), totals.rebalances_of_unknown_cost
    if totals.stopped_ms is not None and totals.stopped_ms >= NEGLIGIBLE_MS:
        whose = f"{noun}s" if totals.partitions is None else count(totals.partitions, noun)
        share = "" if totals.stopped_share is None else percent_at_least(totals.stopped_share, unknown > 0)
        lasted = f"{at_least(about(totals.stopped_ms), unknown > 0)} in sum"
        out.append(f"Rebalances stopped {whose} for {lasted}{f', {share} of their time' if share else ''}.")
    if unknown:
        out.append(f"{capitalized(unknown_costs(unknown, len(totals.rebalances)))}.")
    out += [f"{text}." for text in departure_clauses(totals.departures)]
    found = [_open_finding(it, scene) for it in scene.open_findings]
    return [*out, f"Open {'finding' if len(found) == 1 else 'findings'}: {join_words(found, 9)}."] if found else out


def _open_finding(event: Event, scene: StoryContext) -> str:
    """Its name, as of when its text is, and how much of the same has come since."""
    more = len(scene.departures_since(event))
    since = f", {more:,} more since" if more else ""
    return f"{event['analyzer']} ({event['severity']}, as of {scene.calendar.at(event['at_ms'])}{since})"


def _sure(scene: StoryContext) -> list[str]:
    totals = scene.totals
    left = [it for it in totals.departures if it.cause not in UNKNOWN_CAUSES and not it.observed]
    causes = [
        it
        for it in totals.rebalances
        if cause_info(it.cause).reason and it.cause not in UNKNOWN_CAUSES and not it.observed
    ]
    confidences = [*(it.confidence for it in left), *(it.confidence for it in causes)]
    inferred = [it for it in confidences if 0 < it < 1]
    unknown = unexplained(totals.departures)
    if not inferred and not unknown:
        return []
    when = ", when," if scene.has_times else ""
    out = [f"Certain (in the log): who joined and left{when} and what was assigned."]
    if scene.is_looked_at:
        out = ["As the Admin API showed it: who joined and left and what was assigned."]
    if inferred:
        what = join_words(
            [*(["why members left"] if left else []), *(["why the group rebalanced"] if causes else [])]
        )
        out.insert(0, f"{capitalized(certainty(min(*inferred, 0.99)))} ({percent_range(inferred)}): {what}.")
    if unknown:
        out.insert(0, f"Unknown: why {count(unknown, 'member')} left.")
    if (assumed := assumed_session([it for it in totals.departures if not it.observed], scene)) is not None:
        out.append(assumed)
    if not (scene.has_broker_log or scene.is_looked_at):
        to = " to the agent" * scene.asked.is_inferred_before
        out.append(f"For the broker's own reasons, add --broker-log PATH{to}.")
    return out


def fit_screen(answer: str, sections: Sequence[BriefSection], footer: str, fold: Fold, width: int) -> list[str]:
    """The lines of the screen: `SCREEN_LINES` at most, each of at most `width` cells."""
    head = _capped(fold(answer, width), MAX_ANSWER_LINES)
    left = SCREEN_LINES - len(head) - 2
    blocks = [
        [_capped(fold(text, width - LABEL_WIDTH), MAX_TEXT_LINES) for text in section.texts] for section in sections
    ]
    keeps = [section.keep for section in sections]
    while sum(len(lines) for block in blocks for lines in block) > left:
        longest = max(range(len(blocks)), key=lambda at: (len(blocks[at]) - keeps[at], sum(map(len, blocks[at]))))
        if len(blocks[longest]) > keeps[longest]:
            blocks[longest].pop()
        elif max(keeps) > 1:
            # Fewer that are whole are of more use than all without their ends.
            keeps[keeps.index(max(keeps))] -= 1
        else:
            # Nothing more can go: the longest text loses its end.
            lines = max((lines for block in blocks for lines in block), key=len)
            lines[:] = _capped(lines, len(lines) - 1)
    out = [*head, ""]
    for section, block in zip(sections, blocks, strict=True):
        lines = [line for text in block for line in text]
        out += [f"{(section.title if not at else ''):<{LABEL_WIDTH}}{line}" for at, line in enumerate(lines)]
    return [*out, footer]


def _capped(lines: list[str], most: int) -> list[str]:
    if len(lines) <= most:
        return lines
    if most > 1 and RUNBOOKS in lines[-1]:
        return [*_capped(lines[:-1], most - 1), lines[-1]]  # where it is told at length
    return [*lines[: most - 1], f"{lines[most - 1][:-1]}…"]
