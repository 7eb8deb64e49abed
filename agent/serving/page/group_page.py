"""One group: how it is, what happened and what to change, its members, how far it is behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.core.queries import Health
from agent.presentation.markup import Markup
from agent.presentation.narrative.events import events_within
from agent.presentation.narrative.explain import ADVICE_TITLE, LIMITATIONS_TITLE, TITLES, Story, StoryRequest, explain
from agent.presentation.narrative.phrases import epochs, is_sampled, work
from agent.presentation.narrative.timeline import timeline_entries
from agent.presentation.narrative.words import capitalized, count
from agent.presentation.svg.lanes import build_lanes
from agent.presentation.svg.swimlanes import swimlanes
from agent.serving.page.findings_page import full_item
from agent.serving.page.fleet import RECENT_MS, Event, severity_counts, worst_first
from agent.serving.page.frame import Page
from agent.serving.page.markup import (
    address,
    ago,
    chips,
    current,
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
from agent.serving.page.tables import events_section, lag_section, members_section

Form = Mapping[str, Any]

RANGES = {
    "15m": ("15 min", 900_000),
    "1h": ("1 h", 3_600_000),
    "6h": ("6 h", 21_600_000),
    "24h": ("24 h", 86_400_000),
}
WHOLE_RANGE = "all"
SHORTEST_RANGE = "15m"
MAX_OPEN_PARAGRAPHS = 2
"""Paragraphs of what happened that stand open: the events have it all."""


@dataclass(frozen=True, slots=True)
class GroupData:
    """What an agent knows of a group: its describe form (None once it is gone), its events, from when on these are
    all (None: from the log's beginning), and the newest event of each finding that was open in the range."""

    group: str
    description: Form | None
    events: Sequence[Event]
    complete_since_ms: int | None
    findings: Sequence[Event]


def chosen_range(asked: Mapping[str, str], events: Sequence[Event], now_ms: int) -> str:
    """The range that an address asks for, else the shortest that shows something, from `SHORTEST_RANGE` on."""
    said = asked.get("range")
    if said in RANGES or said == WHOLE_RANGE:
        return said
    last = next((it["at_ms"] for it in reversed(events) if it["type"] != "finding"), now_ms)
    fitting = (
        name for name, (_, span) in RANGES.items() if span >= RANGES[SHORTEST_RANGE][1] and last >= now_ms - span
    )
    return next(fitting, WHOLE_RANGE)


def range_start_ms(chosen: str, now_ms: int) -> int | None:
    """Where a range begins, epoch milliseconds; None for all there is."""
    return None if chosen == WHOLE_RANGE else now_ms - RANGES[chosen][1]


def group_page(
    known: GroupData, chosen: str, now_ms: int, ready: Health, version: str, cluster: str | None = None
) -> Page:
    """The page of one group over a range."""
    since_ms = range_start_ms(chosen, now_ms)
    asked = StoryRequest(
        known.group, now_ms, since_ms=since_ms, is_live=True, complete_since_ms=known.complete_since_ms, of_agent=True
    )
    story = explain(asked, known.events, known.findings, known.description)
    open_now = worst_first(it for it in known.findings if it["state"] != "resolved")
    ranged = events_within(known.events, since_ms, None)
    ranges = _ranges(known, chosen, cluster)
    form = known.description
    # Between two looks things happen that nobody sees: whoever reads this must know.
    is_looked_at = form is not None and is_sampled(form)
    parts = [
        _lead(known, open_now, cluster, story.summary),
        _figures(known, now_ms),
        f'<p class="notice" id="past">{text(capitalized(ready.reason), 500)}.</p>' if is_looked_at else "",
        *_history_sections(known, story, open_now, now_ms, ranges),
        members_section(form),
        lag_section(form, now_ms),
        events_section(timeline_entries(ranged), now_ms, chosen == WHOLE_RANGE),
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


def _history_sections(
    known: GroupData, story: Story, open_now: Sequence[Event], now_ms: int, ranges: str
) -> tuple[str, ...]:
    began_ms = _beginning(known, story.since_ms, now_ms)
    return (
        swimlane_section(known, began_ms, now_ms, ranges),
        _open_findings(open_now, now_ms),
        _story(story, open_now),
    )


def _beginning(known: GroupData, since_ms: int, now_ms: int) -> int:
    """Where the picture begins: not long before anything is known of the group, which would be an empty half."""
    first_ms = known.events[0]["at_ms"] if known.events else since_ms
    return max(since_ms, first_ms - (now_ms - first_ms) // 50)


def _lead(known: GroupData, open_now: Sequence[Event], cluster: str | None, summary: str) -> Markup:
    form = known.description
    said = " ".join(severity(*it) for it in severity_counts(open_now))
    wrong = link("#wrong", Markup(said), class_="badges") if said else ""
    kinds = "" if form is None else f'<span class="kind">{text(form["group_type"])}</span>'
    kinds += "" if cluster is None else f'<span class="kind">{text(cluster)}</span>'
    answer = f'<p class="answer" id="answer">{sentences(summary, 2_000)}</p>' if summary else ""
    fleet = link(address("/", cluster=cluster), "Fleet")
    return Markup(f"""<nav class="crumbs" aria-label="Where this is">{fleet}</nav>
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
    rebalances = number(None) if in_all is None else f"{number(recent)}<small>{in_all} in all</small>"
    assignor = f"<small>{text(form['protocol'], 40)}</small>" if form.get("protocol") else ""
    unit = epochs(form["group_type"]).capitalize()
    noun = f"{work(form['group_type'])}s"
    changed = f"<small>{ago(form['state_since_ms'], now_ms)}</small>" if form["state_since_ms"] > 0 else ""
    return Markup(f"""<dl class="figures" id="figures">
<div><dt>{unit}</dt><dd>{number(form["generation"] if form["generation"] >= 0 else None, "none")}{changed}</dd></div>
<div><dt>Members</dt><dd>{number(len(form["members"]))}{assignor}</dd></div>
<div><dt>{noun.capitalize()} held</dt><dd>{number(form["partitions"])}</dd></div>
<div><dt>Lag, records</dt><dd>{number(form["lag"])}</dd></div>
<div><dt>Rebalances, last hour</dt><dd>{rebalances}</dd></div>
<div><dt>Last commit</dt><dd>{ago(form["last_commit_ms"], now_ms)}</dd></div>
</dl>""")


def _open_findings(open_now: Sequence[Event], now_ms: int) -> Markup:
    if not open_now:
        return Markup("")
    items = "".join(full_item(it, now_ms, of_group=True) for it in open_now)
    return section("wrong", "What is wrong", f'<ul class="findings">{items}</ul>')


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
    rest = [it for it in sections.get(ADVICE_TITLE, []) if it.strip().rstrip(".") not in said]
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
    return Markup(f'<details class="inline" id="all-happened"><summary>And then</summary>{inner}</details>')


def _ranges(known: GroupData, chosen: str, cluster: str | None) -> Markup:
    every = {**{value: words for value, (words, _) in RANGES.items()}, WHOLE_RANGE: "all"}
    links = (
        link(group_address(known.group, cluster, range=value), words, data_swap="", **current(value == chosen))
        for value, words in every.items()
    )
    return chips("ranges", "Range of time", f"<span>Range</span>{''.join(links)}")


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
    links = f"{link(api + more, 'describe')} {link(api + '/timeline' + more, 'timeline')}"
    return Markup(f'<p class="apis" id="apis">The same as JSON: {links}</p>')


WIDE, NARROW = 1240, 320
"""Widths that it is drawn at, for a desk and for a phone: the page shows one of them."""


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
<p class="more">The same in words: <a href="#events">events</a>.</p>"""
    else:
        inner = '<p class="none">Nobody was in the group in this range.</p>'
    return Markup(f"""<section aria-labelledby="lanes-title" id="lanes">
<div class="heading"><h2 id="lanes-title">Members over time</h2>{ranges}</div>
{inner}
</section>""")
