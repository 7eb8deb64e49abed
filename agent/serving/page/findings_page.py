"""Findings: what is open, what was resolved within the last day, each with what to change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from agent.core.diagnosis.severity import Severity
from agent.core.queries import CAUGHT_UP, Health
from agent.presentation.markup import Markup
from agent.presentation.narrative.words import capitalized, count, day
from agent.serving.page.fleet import Event, severity_counts, worst_first
from agent.serving.page.frame import Page
from agent.serving.page.markup import (
    address,
    ago,
    at,
    choices,
    group_address,
    link,
    more,
    name,
    rough,
    section,
    sentences,
    severity,
    text,
)

RECENT_MS = 86_400_000
MAX_OPEN = 300
MAX_RESOLVED = 100
"""Of each list the first so many are shown."""
MAX_ANALYZERS = 200


class FindingsQuery(Struct, frozen=True):
    """Which findings: empty is any."""

    severity: str = ""
    analyzer: str = ""
    cluster: str | None = None

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> FindingsQuery:
        """From the query of an address; an unknown severity is any."""
        said = asked.get("severity", "")
        return cls(said if said in set(Severity) else "", asked.get("analyzer", "")[:200], asked.get("cluster"))

    def matches(self, event: Event) -> bool:
        """Whether this is one of them."""
        return (not self.severity or Severity.of(event["severity"]) == self.severity) and (
            not self.analyzer or event["analyzer"] == self.analyzer
        )


def brief_item(event: Event, now_ms: int, *, several: bool = False) -> Markup:
    """One finding in two lines: where, what, since when. What to change is told where there is room."""
    return _item(
        event,
        f'{severity(event["severity"])}<p class="what">{_where(event, several)} '
        f'<span class="analyzer">{text(event["analyzer"])}</span></p>{_when(event, now_ms)}'
        f'<p class="summary">{sentences(event["summary"])}</p>',
        "brief ",
    )


def full_item(event: Event, now_ms: int, *, several: bool = False, of_group: bool = False) -> Markup:
    """One finding with what to change; without its group where that needs no telling."""
    where = "" if of_group else _where(event, several)
    advice = event["advice"]
    change = f'<p class="advice"><b>Change</b> {sentences(advice)}</p>' if advice else ""
    return _item(
        event,
        f'<p class="what">{severity(event["severity"])} <b class="analyzer">{text(event["analyzer"])}</b> {where} '
        f'{_when(event, now_ms)}</p><p class="summary">{sentences(event["summary"])}</p>{change}',
    )


def _item(event: Event, inner: str, how: str = "") -> Markup:
    said = (event.get("cluster"), event["analyzer"], event["group"], event["since_ms"], event["state"])
    kind = Severity.of(event["severity"])
    return Markup(f'<li class="finding {how}{kind}" data-key="{text(said, 500)}">{inner}</li>')


def _where(event: Event, several: bool) -> Markup:
    group, cluster = event["group"], event.get("cluster") if several else None
    inner = "the cluster" if group is None else link(group_address(group, cluster), name(group))
    of = "" if cluster is None else f'<span class="kind">{text(cluster)}</span>'
    return Markup(f'<span class="where">{inner}{of}</span>')


def _when(event: Event, now_ms: int) -> Markup:
    since = event["since_ms"]
    if event["state"] == "resolved":
        lasted = rough(event["at_ms"] - since)
        return Markup(f'<span class="when">resolved {ago(event["at_ms"], now_ms)}, was open for {lasted}</span>')
    # Its summary is written as it opens and grows worse, and not anew with each case.
    as_of = at(event["at_ms"], day(now_ms))
    return Markup(f'<span class="when">open for {ago(since, now_ms, after="")}, as of {as_of}</span>')


def findings_page(
    events: Sequence[Event], chosen: FindingsQuery, now_ms: int, ready: Health, version: str, *, several: bool = False
) -> Page:
    """The page. `events`: the newest of each finding that was open within `RECENT_MS`."""
    found = [it for it in events if chosen.matches(it)]
    opened = worst_first(it for it in found if it["state"] != "resolved")
    resolved = sorted((it for it in found if it["state"] == "resolved"), key=lambda it: -it["at_ms"])
    everything = sum(it["state"] != "resolved" for it in events)
    headline = f"{count(len(opened), 'open finding')}" if opened else "No open finding"
    none = "No finding that the agent remembers was resolved within the last 24 hours."
    body = Markup(f"""<div class="lead">
<h1 id="headline">{headline[0].upper()}{headline[1:]}</h1>
<p class="under" id="under">{_under(opened, everything, chosen, ready)}</p>
</div>
{_form(events, chosen)}
{section("open", "Open", _list(opened, MAX_OPEN, now_ms, several, "No finding is open."))}
{section("resolved", "Resolved within the last 24 hours", _list(resolved, MAX_RESOLVED, now_ms, several, none))}""")
    return Page(
        title="Findings",
        body=body,
        at_ms=now_ms,
        nav_item="findings",
        announcement=headline,
        ready=ready,
        version=version,
        cluster=chosen.cluster,
    )


def _under(opened: Sequence[Event], everything: int, chosen: FindingsQuery, ready: Health) -> str:
    if chosen.severity or chosen.analyzer:
        return f"Of {everything} open findings. {link(address('/findings', cluster=chosen.cluster), 'Show all')}"
    groups = len({(it.get("cluster"), it["group"]) for it in opened if it["group"] is not None})
    said = ", ".join(words for _, words in severity_counts(opened))
    if said:
        return f"{said}; on {count(groups, 'group')}."
    # Where nobody looks, nothing is found: the reason says so.
    return (
        "No analyzer reports a problem." if ready.reason == CAUGHT_UP else f"{text(capitalized(ready.reason), 500)}."
    )


def _form(events: Iterable[Event], chosen: FindingsQuery) -> Markup:
    severities = {"": "any severity", **{str(it): str(it) for it in reversed(Severity)}}
    names = {str(it["analyzer"]) for it in events} | ({chosen.analyzer} - {""})
    # Ours are short identifiers; what is none cannot be chosen, since it is shown as something else.
    plain = [it for it in sorted(names) if it.isidentifier() and it.isascii() and len(it) < 60]
    analyzers = {"": "any analyzer", **{it: it for it in plain[:MAX_ANALYZERS]}}
    cluster = "" if chosen.cluster is None else f'<input type="hidden" name="cluster" value="{text(chosen.cluster)}">'
    form = '<form action="/findings" method="get" class="filter" data-filter id="form" aria-label="Which findings">'
    return Markup(f"""{form}
<label for="severity">Severity</label>{choices("severity", chosen.severity, severities)}
<label for="analyzer">Analyzer</label>{choices("analyzer", chosen.analyzer, analyzers)}{cluster}
<button>Show</button>
</form>""")


def _list(events: Sequence[Event], most: int, now_ms: int, several: bool, none: str) -> Markup:
    if not events:
        return Markup(f'<p class="none">{none}</p>')
    items = "".join(full_item(it, now_ms, several=several) for it in events[:most])
    rest = more(len(events) - most, f"more: {link('/api/v1/findings', 'the API has all')}.")
    return Markup(f'<ul class="findings rows">{items}</ul>{rest}')
