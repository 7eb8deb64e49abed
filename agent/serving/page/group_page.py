"""One group: how it is, what happened and what to change, its members, how far it is behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from agent.core.queries import Health
from agent.presentation.markup import Markup
from agent.presentation.narrative import gains as narrative_gains
from agent.presentation.narrative.events import events_within
from agent.presentation.narrative.explain import ADVICE_TITLE, LIMITATIONS_TITLE, TITLES, Story, StoryRequest, explain
from agent.presentation.narrative.gains import Gains
from agent.presentation.narrative.phrases import epochs, is_sampled, known_generation, work
from agent.presentation.narrative.staleness import reservations
from agent.presentation.narrative.timeline import timeline_entries
from agent.presentation.narrative.words import capitalized, count
from agent.presentation.svg.lanes import build_lanes
from agent.presentation.svg.swimlanes import swimlanes
from agent.serving.page.assignment_matrix import matrix_section
from agent.serving.page.findings_page import full_item
from agent.serving.page.fleet import RECENT_MS, Event, severity_counts, worst_first
from agent.serving.page.frame import Page
from agent.serving.page.gains_table import gains_table
from agent.serving.page.markup import (
    NARROW,
    WIDE,
    address,
    ago,
    at_least,
    group_address,
    link,
    name,
    number,
    section,
    sentences,
    severity,
    state,
    text,
)
from agent.serving.page.rollouts_section import rollouts_section
from agent.serving.page.tables import events_section, lag_section, members_section
from agent.serving.page.time_range import TimeRange, range_chips, range_problem
from agent.simulation.whatif.recorder import GroupRecording

Form = Mapping[str, Any]

MAX_OPEN_PARAGRAPHS = 2
"""Paragraphs of what happened that stand open: the events have it all."""


class GroupData(Struct, frozen=True):
    """What an agent knows of a group: its describe form (None once it is gone), its events, from when on these are
    all (None: from the log's beginning), the newest event of each finding that was open in the range, and of each
    that is open now, its newest states, and what other settings would have made of them (None: that is being
    replayed); the rollouts in the range as JSON, the oldest first, and what other settings would have made of the
    newest (None: the same)."""

    group: str
    description: Form | None
    events: Sequence[Event]
    complete_since_ms: int | None
    findings: Sequence[Event]
    open_now: Sequence[Event]
    recording: GroupRecording | None = None
    gains: Gains | None = field(default_factory=Gains)
    rollouts: Sequence[Mapping[str, Any]] = ()
    rollout_costs: Mapping[str, Any] | None = None


def group_page(
    known: GroupData,
    chosen: TimeRange,
    now_ms: int,
    ready: Health,
    version: str,
    cluster: str | None = None,
    generation: str | None = None,
) -> Page:
    """The page of one group over a range. `generation`: the one whose assignment is asked for, else the newest's."""
    asked = StoryRequest(
        known.group,
        now_ms,
        since_ms=chosen.since_ms,
        until_ms=chosen.until_ms,
        is_live=True,
        complete_since_ms=known.complete_since_ms,
        of_agent=True,
    )
    story = explain(asked, known.events, known.findings, known.description, gains=known.gains)
    open_now = worst_first(known.open_now)
    ranged = events_within(known.events, chosen.since_ms, chosen.until_ms)
    until_ms = now_ms if chosen.until_ms is None else chosen.until_ms
    # The picture begins where it was asked to, and shows of which part of it nothing is known.
    since_ms = chosen.since_ms
    if since_ms is None:
        since_ms = ranged[0]["at_ms"] if ranged else story.since_ms
    began_ms = _beginning(known, min(since_ms, until_ms), until_ms)
    ranges = range_chips(known.group, cluster, chosen, began_ms, now_ms)
    form = known.description
    group_type = "classic" if form is None else str(form["group_type"])
    names = {} if form is None else {it["topic_id"]: it["topic"] for it in form["offsets"]}
    matrix = matrix_section(known.recording, generation, group_type, now_ms, chosen.query(), cluster, names)
    none = "No events are known." if chosen.is_everything else "No events in this range."
    if asked.lost_before_ms is not None:
        none = "No events of this range are kept."
    # Between two looks things happen that nobody sees: whoever reads this must know.
    is_looked_at = form is not None and is_sampled(form)
    parts = [
        _lead(known, open_now, cluster, story.summary),
        _figures(known, now_ms),
        _stale(known, now_ms),
        f'<p class="notice" id="past">{text(capitalized(ready.reason), 500)}.</p>' if is_looked_at else "",
        range_problem(chosen),
        swimlane_section(known, began_ms, until_ms, ranges),
        _open_findings(open_now, known.gains, now_ms),
        rollouts_section(known.rollouts, known.rollout_costs, now_ms),
        _story(story, open_now),
        matrix.markup,
        members_section(form, with_assignment=not matrix.is_complete),
        lag_section(form, now_ms),
        events_section(timeline_entries(ranged), now_ms, none),
        _background(story),
        _api_links(known, cluster),
    ]
    kind = "gone" if form is None else f"{form['state']}, {count(len(form['members']), 'member')}"
    if form is not None and form["generation"] >= 0:
        kind += f", {epochs(form['group_type'])} {form['generation']}"
    return Page(
        title=known.group,
        body=Markup("\n".join(part for part in parts if part)),
        at_ms=now_ms,
        nav_item="group",
        announcement=f"{known.group[:60]}: {kind}, {count(len(open_now), 'open finding')}",
        ready=ready,
        version=version,
        cluster=cluster,
    )


def _beginning(known: GroupData, since_ms: int, until_ms: int) -> int:
    """Where the picture begins: not long before anything is known of the group, which would be an empty half."""
    first_ms = known.events[0]["at_ms"] if known.events else since_ms
    return since_ms if first_ms >= until_ms else max(since_ms, first_ms - (until_ms - first_ms) // 50)


def _lead(known: GroupData, open_now: Sequence[Event], cluster: str | None, summary: str) -> Markup:
    form = known.description
    said = " ".join(severity(*it) for it in severity_counts(open_now))
    wrong = link("#wrong", Markup(said), class_="badges") if said else ""
    kinds = "" if form is None else f'<span class="kind">{text(form["group_type"])}</span>'
    kinds += "" if cluster is None else f'<span class="kind">{text(cluster)}</span>'
    answer = f'<p class="answer" id="answer">{sentences(summary, 2_000)}</p>' if summary else ""
    fleet = link(address("/", cluster=cluster), "Fleet")
    return Markup(f"""<nav class="crumbs" aria-label="Breadcrumb">{fleet}</nav>
<div class="lead">
<h1 id="headline" class="name">{name(known.group)}</h1>
<p class="under" id="under">{state("Dead" if form is None else form["state"])}{kinds}{wrong}</p>
{answer}</div>""")


def _figures(known: GroupData, now_ms: int) -> Markup:
    form = known.description
    if form is None:
        return Markup("")
    since_ms = now_ms - RECENT_MS
    recent = sum(it["type"] == "rebalance" and it["at_ms"] >= since_ms for it in known.events)
    in_all = form["rebalances"]
    lately = number(recent)
    if (known.complete_since_ms or 0) > since_ms and recent != in_all:
        lately = at_least(lately)
    rebalances = number(None) if in_all is None else f"{lately}<small>{in_all:,} in all</small>"
    assignor = f"<small>{text(form['protocol'], 40)}</small>" if form.get("protocol") else ""
    unit = epochs(form["group_type"]).capitalize()
    noun = f"{work(form['group_type'])}s"
    none = "not known" if is_sampled(form) else "none"
    never = "not known" if form["committed_partitions"] else "never"
    changed = f"<small>{ago(form['state_since_ms'], now_ms)}</small>" if form["state_since_ms"] > 0 else ""
    return Markup(f"""<dl class="figures" id="figures">
<div><dt>{unit}</dt><dd>{number(known_generation(form), none)}{changed}</dd></div>
<div><dt>Members</dt><dd>{number(len(form["members"]))}{assignor}</dd></div>
<div><dt>{noun.capitalize()} held</dt><dd>{number(form["partitions"])}</dd></div>
<div><dt>Lag, records</dt><dd>{number(form["lag"])}</dd></div>
<div><dt>Rebalances, last hour</dt><dd>{rebalances}</dd></div>
<div><dt>Last commit</dt><dd>{ago(form["last_commit_ms"], now_ms, none=never)}</dd></div>
</dl>""")


def _stale(known: GroupData, now_ms: int) -> Markup:
    """Why it may stand otherwise by now."""
    said = " ".join(reservations(known.description, now_ms))
    return Markup(f'<p class="notice" id="stale">{sentences(said)}</p>') if said else Markup("")


def _open_findings(open_now: Sequence[Event], gains: Gains | None, now_ms: int) -> Markup:
    if not open_now:
        return Markup("") if gains is None or not gains.gains else gains_table(gains)
    items = "".join(full_item(it, now_ms, of_group=True) for it in open_now)
    beside = gains_table(gains)
    inner = Markup(f'<ul class="findings">{items}</ul>')
    return section("wrong", "Open findings", f'<div class="beside">{inner}{beside}</div>' if beside else inner)


def _story(story: Story, open_now: Sequence[Event]) -> Markup:
    sections = dict(story.sections_without_summary())
    happened = sections.get(TITLES["happened"], [])
    told = "".join(
        [
            *_paragraphs(sections.get("", [])),
            *_paragraphs(happened[:MAX_OPEN_PARAGRAPHS]),
            _folded(happened[MAX_OPEN_PARAGRAPHS:]),
            *_paragraphs(sections.get(TITLES["cost"], [])),
        ]
    )
    # What findings advise stands with them.
    said = {it["advice"].strip().rstrip(".") for it in open_now}
    if story.gains is not None:
        # And what replays say has a table there.
        said.update(it.rstrip(".") for _, it, _ in narrative_gains.advice(story.gains, story.libraries))
    rest = [it for it in sections.get(ADVICE_TITLE, []) if it.partition(" See docs/")[0].rstrip(".") not in said]
    change = "".join(f"<li>{sentences(it, 2_000)}</li>" for it in rest)
    changes = section("change", ADVICE_TITLE, f'<ul class="prose">{change}</ul>') if change else ""
    return Markup(f"""<div class="pair">
{section("happened", TITLES["happened"], f'<div class="prose">{told}</div>')}
{changes}
</div>""")


def _paragraphs(texts: Sequence[str]) -> list[str]:
    return [f"<p>{sentences(it, 4_000)}</p>" for it in texts]


def _folded(texts: Sequence[str]) -> Markup:
    if not texts:
        return Markup("")
    inner = "".join(_paragraphs(texts))
    return Markup(f'<details class="inline" id="all-happened"><summary>More</summary>{inner}</details>')


def _background(story: Story) -> Markup:
    sections = dict(story.sections_without_summary())
    out = []
    for key, title in (("why", TITLES["why"]), ("sure", TITLES["sure"]), ("unseen", LIMITATIONS_TITLE)):
        said = "".join(f"<li>{sentences(it, 4_000)}</li>" for it in sections.get(title, []))
        if said:
            out.append(
                f'<details id="{key}"><summary><h2>{title}</h2></summary><ul class="prose">{said}</ul></details>'
            )
    return Markup("".join(out))


def _api_links(known: GroupData, cluster: str | None) -> Markup:
    href = group_address(known.group, cluster)
    if href is None or href.startswith("/groups/?"):
        return Markup("")
    path, _, query = href.partition("?")
    api = f"/api/v1{path}"
    more = f"?{query}" if query else ""
    parts = {"describe": "", "timeline": "/timeline", "rollouts": "/rollouts"}
    links = " ".join(link(api + part + more, words) for words, part in parts.items())
    return Markup(f'<p class="apis" id="apis">The same as JSON: {links}</p>')


def swimlane_section(known: GroupData, since_ms: int, until_ms: int, ranges: str) -> Markup:
    """Members as lanes from `since_ms` to `until_ms`, under the markup that chooses another range."""
    form = known.description
    drawn = build_lanes(
        known.events,
        since_ms=since_ms,
        until_ms=until_ms,
        members=() if form is None else form["members"],
        generation=None if form is None else form["generation"],
        known_since_ms=known.complete_since_ms,
    )
    if drawn.lanes or drawn.generations:
        inner = f"""<div class="picture wide-only">{swimlanes(drawn, width=WIDE)}</div>
<div class="picture narrow-only">{swimlanes(drawn, width=NARROW)}</div>
<p class="more">As text: <a href="#events">events</a>.</p>"""
    else:
        none = "The group had no members in this range."
        if drawn.known_since_ms is not None:
            none = "No members are known in this range: earlier events are not kept."
        inner = f'<p class="none">{none}</p>'
    return Markup(f"""<section aria-labelledby="lanes-title" id="lanes">
<div class="heading"><h2 id="lanes-title">Members over time</h2>{ranges}</div>
{inner}
</section>""")
