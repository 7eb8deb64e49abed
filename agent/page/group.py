"""One group: how it is, what happened and what to change, its members, how far it is behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.page.findings import full
from agent.page.fleet import RECENT_MS, Event, worst_first
from agent.page.frame import Page
from agent.page.markup import (
    address,
    ago,
    group_address,
    link,
    name,
    number,
    sentences,
    severity,
    state,
    text,
)
from agent.page.picture import picture
from agent.page.tables import events, lags, members
from agent.runtime import Health
from agent.story.explain import CHANGE, TITLES, UNSEEN, Asked, Story, explain
from agent.story.phrases import epochs, work
from agent.story.reading import within
from agent.story.timeline import entries
from agent.story.words import capital, count
from analyzers.severity import Severity

Form = Mapping[str, Any]

RANGES = {
    "15m": ("15 min", 900_000),
    "1h": ("1 h", 3_600_000),
    "6h": ("6 h", 21_600_000),
    "24h": ("24 h", 86_400_000),
}
ALL = "all"
LEAST = "15m"
MOST_TOLD = 2
"""Paragraphs of what happened that stand open: the events have it all."""


@dataclass(frozen=True, slots=True)
class Known:
    """What an agent knows of a group: its describe form (None once it is gone), its events, from when on these are
    all (None: from the log's beginning), and the newest event of each finding that was open in the range."""

    group: str
    form: Form | None
    events: Sequence[Event]
    complete_since_ms: int | None
    findings: Sequence[Event]


def range_of(asked: Mapping[str, str], events: Sequence[Event], now_ms: int) -> str:
    """The range that an address asks for; unless it does, the shortest that shows something, from `LEAST` on."""
    said = asked.get("range")
    if said in RANGES or said == ALL:
        return said
    last = next((it["at_ms"] for it in reversed(events) if it["type"] != "finding"), now_ms)
    fitting = (name for name, (_, span) in RANGES.items() if span >= RANGES[LEAST][1] and last >= now_ms - span)
    return next(fitting, ALL)


def since(chosen: str, now_ms: int) -> int | None:
    """Where a range begins, epoch milliseconds; None for all there is."""
    return None if chosen == ALL else now_ms - RANGES[chosen][1]


def group_page(
    known: Known, chosen: str, now_ms: int, ready: Health, version: str, cluster: str | None = None
) -> Page:
    """The page of one group over a range."""
    since_ms = since(chosen, now_ms)
    asked = Asked(
        known.group, now_ms, since_ms=since_ms, live=True, complete_since_ms=known.complete_since_ms, of_agent=True
    )
    story = explain(asked, known.events, known.findings, known.form)
    open_now = worst_first(it for it in known.findings if it["state"] != "resolved")
    ranged = within(known.events, since_ms, None)
    ranges = _ranges(known, chosen, cluster)
    has_past = known.form is None or known.form["rebalances"] is not None
    parts = [
        _lead(known, open_now, cluster, story.summary if has_past else ""),
        _figures(known, now_ms),
        "" if has_past else f'<p class="notice" id="past">{text(capital(ready.reason), 500)}.</p>',
        *(_past(known, story, open_now, now_ms, ranges) if has_past else ()),
        members(known.form),
        lags(known.form, now_ms),
        *((events(entries(ranged), now_ms, chosen == ALL), _more(story)) if has_past else ()),
        _elsewhere(known, cluster),
    ]
    form = known.form
    kind = "gone" if form is None else f"{form['state']}, {count(len(form['members']), 'member')}"
    if form is not None and form["generation"] >= 0:
        kind += f", {epochs(form['group_type'])} {form['generation']}"
    return Page(
        title=known.group,
        body="\n".join(part for part in parts if part),
        at_ms=now_ms,
        place="group",
        says=f"{known.group[:60]}: {kind}, {count(len(open_now), 'open finding')}",
        ready=ready,
        version=version,
        cluster=cluster,
    )


def _past(known: Known, story: Story, open_now: Sequence[Event], now_ms: int, ranges: str) -> tuple[str, ...]:
    began_ms = _beginning(known, story.since_ms, now_ms)
    return (
        picture(known.events, known.form, began_ms, now_ms, ranges, known.complete_since_ms),
        _wrong(open_now, now_ms),
        _story(story, open_now),
    )


def _beginning(known: Known, since_ms: int, now_ms: int) -> int:
    """Where the picture begins: not long before anything is known of the group, which would be an empty half."""
    first_ms = known.events[0]["at_ms"] if known.events else since_ms
    return max(since_ms, first_ms - (now_ms - first_ms) // 50)


def _lead(known: Known, open_now: Sequence[Event], cluster: str | None, summary: str) -> str:
    form = known.form
    by = Counter(Severity.of(it["severity"]) for it in open_now)
    said = " ".join(severity(str(it), f"{by[it]} {it}") for it in reversed(Severity) if by[it])
    wrong = link("#wrong", said, class_="badges") if said else ""
    kinds = "" if form is None else f'<span class="kind">{text(form["group_type"])}</span>'
    kinds += "" if cluster is None else f'<span class="kind">{text(cluster)}</span>'
    answer = f'<p class="answer" id="answer">{sentences(summary, 2_000)}</p>' if summary else ""
    return f"""<nav class="crumbs" aria-label="Where this is">{link(address("/", cluster=cluster), "Fleet")}</nav>
<div class="lead">
<h1 id="headline" class="name">{name(known.group)}</h1>
<p class="under" id="under">{state("Dead" if form is None else form["state"])}{kinds}{wrong}</p>
{answer}</div>"""


def _figures(known: Known, now_ms: int) -> str:
    form = known.form
    if form is None:
        return ""
    since_ms = now_ms - RECENT_MS
    recent = sum(it["type"] == "rebalance" and it["at_ms"] >= since_ms for it in known.events)
    in_all = form["rebalances"]
    rebalances = number(None) if in_all is None else f"{number(recent)}<small>{in_all} in all</small>"
    assignor = f"<small>{text(form['protocol'], 40)}</small>" if form.get("protocol") else ""
    unit = epochs(form["group_type"]).capitalize()
    noun = f"{work(form['group_type'])}s"
    changed = f"<small>{ago(form['state_since_ms'], now_ms)}</small>" if form["state_since_ms"] > 0 else ""
    return f"""<dl class="figures" id="figures">
<div><dt>{unit}</dt><dd>{number(form["generation"] if form["generation"] >= 0 else None, "none")}{changed}</dd></div>
<div><dt>Members</dt><dd>{number(len(form["members"]))}{assignor}</dd></div>
<div><dt>{noun.capitalize()} held</dt><dd>{number(form["partitions"])}</dd></div>
<div><dt>Lag, records</dt><dd>{number(form["lag"])}</dd></div>
<div><dt>Rebalances, last hour</dt><dd>{rebalances}</dd></div>
<div><dt>Last commit</dt><dd>{ago(form["last_commit_ms"], now_ms)}</dd></div>
</dl>"""


def _wrong(open_now: Sequence[Event], now_ms: int) -> str:
    if not open_now:
        return ""
    items = "".join(full(it, now_ms, of_group=True) for it in open_now)
    return f"""<section aria-labelledby="wrong-title" id="wrong">
<h2 id="wrong-title">What is wrong</h2>
<ul class="findings">{items}</ul>
</section>"""


def _story(story: Story, open_now: Sequence[Event]) -> str:
    sections = dict(story.parts())
    happened = sections.get(TITLES["happened"], [])
    told = "".join(
        [
            *_paragraphs(sections.get("", [])),
            *_paragraphs(happened[:MOST_TOLD]),
            _folded(happened[MOST_TOLD:]),
            *_paragraphs(sections.get(TITLES["cost"], [])),
        ]
    )
    # What findings advise stands with them.
    said = {it["advice"].strip().rstrip(".") for it in open_now}
    rest = [it for it in sections.get(CHANGE, []) if it.strip().rstrip(".") not in said]
    change = "".join(f"<li>{sentences(it, 2_000)}</li>" for it in rest)
    return f"""<div class="pair">
<section aria-labelledby="happened-title" id="happened">
<h2 id="happened-title">What happened</h2>
<div class="prose">{told}</div>
</section>
{_changes(change)}
</div>"""


def _paragraphs(texts: Sequence[str]) -> list[str]:
    return [f"<p>{sentences(it, 4_000)}</p>" for it in texts]


def _folded(texts: Sequence[str]) -> str:
    if not texts:
        return ""
    inner = "".join(_paragraphs(texts))
    return f'<details class="inline" id="all-happened"><summary>And then</summary>{inner}</details>'


def _changes(items: str) -> str:
    if not items:
        return ""
    return f"""<section aria-labelledby="change-title" id="change">
<h2 id="change-title">{CHANGE}</h2>
<ul class="prose">{items}</ul>
</section>"""


def _ranges(known: Known, chosen: str, cluster: str | None) -> str:
    links = []
    for value, words in [*((value, words) for value, (words, _) in RANGES.items()), (ALL, "all")]:
        href = group_address(known.group, cluster, range=value)
        here = {"aria_current": "true"} if value == chosen else {}
        links.append(link(href, words, data_swap="", **here))
    return f'<nav class="chips" aria-label="Range of time" id="ranges"><span>Range</span>{"".join(links)}</nav>'


def _more(story: Story) -> str:
    sections = dict(story.parts())
    out = []
    for key, title in (("why", TITLES["why"]), ("sure", TITLES["sure"]), ("unseen", UNSEEN)):
        said = "".join(f"<li>{sentences(it, 4_000)}</li>" for it in sections.get(title, []))
        if said:
            out.append(
                f'<details id="{key}"><summary><h2>{title}</h2></summary><ul class="prose">{said}</ul></details>'
            )
    return "".join(out)


def _elsewhere(known: Known, cluster: str | None) -> str:
    href = group_address(known.group, cluster)
    if href is None or href.startswith("/groups/?"):
        return ""
    path, _, query = href.partition("?")
    api = f"/api/v1{path}"
    more = f"?{query}" if query else ""
    links = f"{link(api + more, 'describe')} {link(api + '/timeline' + more, 'timeline')}"
    return f'<p class="apis" id="apis">The same as JSON: {links}</p>'
