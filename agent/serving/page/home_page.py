"""The fleet: what is wrong, and every group, those in trouble first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import ceil

from msgspec import Struct

from agent.common.units import MINUTE_MS
from agent.core.diagnosis.severity import Severity
from agent.core.queries import CAUGHT_UP
from agent.presentation.markup import Markup
from agent.presentation.narrative.words import capitalized, count, day
from agent.presentation.svg.causes_over_time import causes_over_time
from agent.serving.page.findings_page import brief_item
from agent.serving.page.fleet import (
    RECENT_MS,
    SORTS,
    Fleet,
    FleetGroup,
    GroupRow,
    causes_of,
    histogram,
    severity_counts,
)
from agent.serving.page.frame import Page
from agent.serving.page.markup import (
    NARROW,
    WIDE,
    address,
    ago,
    at,
    at_least,
    bars,
    chips,
    current,
    group_address,
    link,
    name,
    number,
    section,
    severity,
    state,
    table,
    text,
)

ROWS_PER_PAGE = 100
"""Rows of a page of the table: more nobody reads, and each costs time to make, to send and to show."""
SHORTEST_PICTURE_MS = 15 * MINUTE_MS
"""Less than that causes are not drawn over."""
MAX_FINDINGS = 5
"""Open findings that are shown above the groups."""
MAX_CHIPS = 3
"""Findings that are named in a group's row."""
MAX_QUERY = 200
MAX_WORDS = 8

DEFAULT_SORT = "trouble"
COLUMNS = (
    # Name of the sort, heading, how it is sorted first, class.
    ("group", "Group", "group", "name"),
    ("state", "State", "state", ""),
    ("members", "Members", "-members", "number"),
    ("partitions", "Partitions", "-partitions", "number"),
    ("lag", "Lag", "-lag", "number"),
    ("rebalances", "Rebalances, 1 h", "-rebalances", "number"),
    ("commit", "Last commit", "-commit", "number"),
)


class FleetQuery(Struct, frozen=True):
    """Which of the groups, and how: what the address says, and whatever it says, something can be shown."""

    query: str = ""
    sort: str = DEFAULT_SORT
    page: int = 1
    cluster: str | None = None

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> FleetQuery:
        """From the query of an address; what it has not, or wrong, is as always."""
        sort = asked.get("sort", DEFAULT_SORT)
        page = asked.get("page", "1")
        return cls(
            asked.get("q", "").strip()[:MAX_QUERY],
            sort if sort.removeprefix("-") in SORTS else DEFAULT_SORT,
            int(page) if page.isascii() and page.isdecimal() and len(page) < 7 else 1,
            asked.get("cluster"),
        )

    def address(self, **changed: str | None) -> str:
        """The same with something else: what is as always is left out."""
        said = {
            "q": self.query or None,
            "sort": None if self.sort == DEFAULT_SORT else self.sort,
            "page": None if self.page < 2 else str(self.page),
            "cluster": self.cluster,
        }
        return address("/", **{**said, **changed})


def home_page(fleet: Fleet, wanted: FleetQuery, clusters: Sequence[str] = ()) -> Page:
    """The page. `clusters` are the names of all, where there are several."""
    words = wanted.query.lower().split()[:MAX_WORDS]
    found = (
        [it for it in fleet.sorted_by(wanted.sort) if it.matches(words)] if words else fleet.sorted_by(wanted.sort)
    )
    headline = _headline(fleet)
    body = Markup(f"""<div class="lead">
<h1 id="headline">{headline}</h1>
<p class="under" id="under">{_under(fleet)}</p>
</div>
{_clusters(wanted, clusters)}{key_figures(fleet)}
{_findings(fleet, wanted)}
{_causes(fleet)}
{_groups(fleet, found, wanted)}""")
    return Page(
        title="Fleet",
        body=body,
        at_ms=fleet.at_ms,
        nav_item="fleet",
        announcement=f"{headline}. {_many(len(fleet.findings), 'open finding')}.",
        ready=fleet.ready,
        version=version_of(fleet, wanted),
        cluster=wanted.cluster,
    )


def version_of(fleet: Fleet, wanted: FleetQuery) -> str:
    """What tells one state of the page from another. A minute later, bars have moved."""
    asked = blake2b(repr(wanted).encode("utf-8", "backslashreplace"), digest_size=4).hexdigest()
    return f"{fleet.version}-{fleet.at_ms // 60_000}-{asked}"


def _headline(fleet: Fleet) -> str:
    if not fleet.groups:
        return "No groups yet"
    wrong = sum(it.severity_level > 1 for it in fleet.groups)
    if wrong:
        return f"{wrong:,} of {_many(len(fleet.groups), 'group')} {'needs' if wrong == 1 else 'need'} attention"
    everyone = (
        f"{_many(len(fleet.groups), 'group')}, no problem found" if len(fleet.groups) > 1 else "No problem found"
    )
    return everyone if not fleet.findings else f"{_many(len(fleet.groups), 'group')}, nothing urgent"


def _under(fleet: Fleet) -> str:
    said = ["the agent has caught up" if fleet.ready.ready else "the agent is not up to date"]
    restless = sum(bool(it.recent) for it in fleet.groups)
    is_partial = fleet.partly_known > 0
    last = f"{'at least ' if is_partial else ''}{_many(restless, 'group')} rebalanced within the last hour"
    none = "no rebalance of the last hour is remembered" if is_partial else "no rebalance within the last hour"
    said.insert(0, last if restless else none)
    if fleet.ready.ready:
        # What else there is to say, where all is well otherwise.
        said += [it for it in fleet.ready.reason.split("; ") if it != CAUGHT_UP]
    return f"{text(capitalized('; '.join(said)), 600)}."


def _clusters(wanted: FleetQuery, clusters: Sequence[str]) -> Markup:
    if not clusters:
        return Markup("")
    links = (
        link(wanted.address(cluster=name, page=None), text(words), **current(name == wanted.cluster))
        for name, words in [(None, "All clusters"), *((it, it) for it in clusters)]
    )
    return chips("clusters", "Clusters", "".join(links))


def _findings(fleet: Fleet, wanted: FleetQuery) -> Markup:
    if not fleet.findings:
        return Markup("")
    shown = fleet.findings[:MAX_FINDINGS]
    several = any(it.cluster is not None for it in fleet.groups)
    items = "".join(brief_item(it, fleet.at_ms, several=several) for it in shown)
    every = link(address("/findings", cluster=wanted.cluster), f"All {len(fleet.findings):,} open findings")
    more = f'<p class="more">{every}</p>' if len(fleet.findings) > len(shown) else ""
    return section("findings", "Open findings", f'<ul class="findings rows">{items}</ul>\n{more}')


def _causes(fleet: Fleet) -> Markup:
    """The picture of why groups rebalanced lately, which all readers of a fleet share."""
    found = fleet.drawn.get("causes")
    if found is None:
        found = fleet.drawn["causes"] = _draw_causes(fleet)
    return found


def _draw_causes(fleet: Fleet) -> Markup:
    """A row for each cause, over the hour or as much of it as anything came in."""
    causes = causes_of(fleet.groups)
    if not causes:
        return Markup("")
    # The minute that is under way moves the picture; the version of the page has it.
    until_ms = -(-fleet.at_ms // MINUTE_MS) * MINUTE_MS
    first_ms = min(map(min, causes.values())) // MINUTE_MS * MINUTE_MS
    since_ms = max(until_ms - RECENT_MS, min(first_ms, until_ms - SHORTEST_PICTURE_MS))
    drawn = (
        (kind, causes_over_time(causes, since_ms=since_ms, until_ms=until_ms, width=width, bars=bars))
        for kind, width, bars in (("wide-only", WIDE, 60), ("narrow-only", NARROW, 30))
    )
    pictures = "".join(f'<div class="picture {kind}">{svg}</div>' for kind, svg in drawn)
    partly = fleet.partly_known
    forgotten = f"The agent has let older events of {_many(partly, 'group')} go: there may have been more rebalances."
    note = f'<p class="more">{forgotten}</p>' if partly else ""
    return section("causes", "Why groups rebalanced, last hour", pictures + note)


def _many(number: int, noun: str) -> str:
    """As `count`, for thousands as well."""
    return f"{number:,} {noun}s" if number > 1 else count(number, noun)


def _groups(fleet: Fleet, found: Sequence[FleetGroup], wanted: FleetQuery) -> Markup:
    pages = max(1, ceil(len(found) / ROWS_PER_PAGE))
    page = min(max(wanted.page, 1), pages)
    first = (page - 1) * ROWS_PER_PAGE
    shown = found[first : first + ROWS_PER_PAGE]
    several = any(it.cluster is not None for it in fleet.groups)
    said = f"{len(found):,} of {_many(len(fleet.groups), 'group')}" if wanted.query else _many(len(found), "group")
    span = f"; {first + 1:,} to {first + len(shown):,} shown" if pages > 1 else ""
    kept = "".join(
        f'<input type="hidden" name="{name}" value="{text(value)}">'
        for name, value in (
            ("sort", wanted.sort if wanted.sort != DEFAULT_SORT else None),
            ("cluster", wanted.cluster),
        )
        if value is not None
    )
    rows = "".join(_row(it, fleet.at_ms, several) for it in shown)
    heads = "".join(_head(it, wanted) for it in COLUMNS)
    shown_table = table("groups rows", "groups", f"Groups, {_sorted(wanted.sort)}", heads, rows, body_id="rows")
    none = "" if shown else f'<p class="none" id="none">{_none(wanted)}</p>'
    return Markup(f"""<section aria-labelledby="groups-title" id="groups">
<div class="heading">
<h2 id="groups-title">Groups</h2>
<form role="search" action="/" method="get" class="filter" data-filter>
<label class="sr" for="q">Filter groups by name, state, type or finding</label>
<input type="search" id="q" name="q" value="{text(wanted.query)}" placeholder="Filter: name, state, type, finding"
 autocomplete="off" spellcheck="false" maxlength="{MAX_QUERY}" aria-keyshortcuts="/">{kept}
<button>Filter</button>
</form>
<p class="count" id="count">{said}{span}</p>
{_by_trouble(wanted)}
</div>
{shown_table}{none}{_pager(wanted, page, pages)}
</section>""")


def _none(wanted: FleetQuery) -> Markup:
    if not wanted.query:
        return Markup("No groups are known. A group appears when it has members or commits an offset.")
    return Markup(
        f"No group matches <q>{text(wanted.query)}</q>. {link(wanted.address(q=None, page=None), 'Show all')}"
    )


def _sorted(sort: str) -> str:
    if sort == DEFAULT_SORT:
        return "most severe findings first"
    key = sort.removeprefix("-")
    heads = {column: head for column, head, _, _ in COLUMNS}
    return f"by {heads.get(key, key).lower()}{', descending' if sort.startswith('-') else ''}"


def _by_trouble(wanted: FleetQuery) -> Markup:
    if wanted.sort == DEFAULT_SORT:
        return Markup('<p class="order" id="order">Most severe findings first</p>')
    back = link(wanted.address(sort=None, page=None), "Most severe findings first", data_swap="")
    return Markup(f'<p class="order" id="order">Sorted {_sorted(wanted.sort)}. {back}</p>')


def _head(column: tuple[str, str, str, str], wanted: FleetQuery) -> Markup:
    key, words, first, how = column
    now = wanted.sort.removeprefix("-") == key
    backwards = wanted.sort.startswith("-")
    other = f"{'' if backwards else '-'}{key}" if now else first
    aria = f' aria-sort="{"descending" if backwards else "ascending"}"' if now else ""
    arrow = f'<span aria-hidden="true" class="arrow">{"↓" if backwards else "↑"}</span>' if now else ""
    shown = link(wanted.address(sort=other, page=None), Markup(f"{words}{arrow}"), data_swap="")
    return Markup(f'<th scope="col" class="{how}"{aria}>{shown}</th>')


def _row(group: FleetGroup, now_ms: int, several: bool) -> Markup:
    row = group.row
    href = group_address(group.name, group.cluster)
    chips = "".join(severity(event["severity"], event["analyzer"]) for event in group.findings[:MAX_CHIPS])
    if len(group.findings) > MAX_CHIPS:
        chips += f'<span class="severity">and {len(group.findings) - MAX_CHIPS} more</span>'
    counts = histogram((it.at_ms for it in group.recent), now_ms)
    trend = (
        bars(counts, words=f"per 5 minutes: {', '.join(map(str, counts))}", most=3)
        if group.recent
        else '<span class="bars"></span>'
    )
    recent = number(None if row["rebalances"] is None else len(group.recent))
    if not group.is_recent_whole(now_ms):
        recent = at_least(recent)
    where = f'<span class="kind">{text(group.cluster)}</span>' if several else ""
    kind = "" if row["group_type"] == "classic" else f'<span class="kind">{text(row["group_type"])}</span>'
    stale = f"<small>as of {at(row['stale']['since_ms'], day(now_ms))}</small>" if row.get("stale") else ""
    worst = f" worst-{Severity.of(group.findings[0]['severity'])}" if group.findings else ""
    return Markup(
        f'<tr data-key="{text(href or group.name, 100_000)}" class="row{worst}">'
        f'<th scope="row" class="name">{link(href, name(group.name))}{where}{kind}'
        f"{f'<span class=chips-of>{chips}</span>' if chips else ''}</th>"
        f'<td data-label="State">{state(row["state"])}{stale}</td>'
        f'<td class="number" data-label="Members">{number(row["members"])}</td>'
        f'<td class="number" data-label="Partitions">{number(row["partitions"])}</td>'
        f'<td class="number" data-label="Lag">{number(row["lag"])}</td>'
        f'<td class="number trend" data-label="Rebalances, 1 h">{trend}<b>{recent}</b></td>'
        f'<td class="number" data-label="Last commit">{_commit(row, now_ms)}</td></tr>'
    )


def _commit(row: GroupRow, now_ms: int) -> str:
    none = "not known" if row["rebalances"] is None or row["committed_partitions"] else "never"
    return ago(row["last_commit_ms"], now_ms, none=none)


def _pager(wanted: FleetQuery, page: int, pages: int) -> Markup:
    if pages == 1:
        return Markup("")
    before = None if page == 1 else wanted.address(page=None if page == 2 else str(page - 1))
    after = None if page == pages else wanted.address(page=str(page + 1))
    links = [
        link(href, words, data_swap="", rel=rel) if href else f'<span class="off">{words}</span>'
        for href, words, rel in ((before, "Previous", "prev"), (after, "Next", "next"))
    ]
    said = f"Page {page:,} of {pages:,}"
    return Markup(
        f'<nav class="pager" aria-label="Pages of groups" id="pager">{links[0]}<span>{said}</span>{links[1]}</nav>'
    )


def key_figures(fleet: Fleet) -> Markup:
    """As a list of terms. What is not known of any group is not known, and no 0."""
    said = "".join(f"<li>{severity(*it)}</li>" for it in severity_counts(fleet.findings))
    recent = [at for it in fleet.groups for at, _ in it.recent]
    counts = histogram(recent, fleet.at_ms)
    lags = [it.row["lag"] for it in fleet.groups if it.row["lag"] is not None]
    unknown = len(fleet.groups) - len(lags)
    lag = number(sum(lags) if lags else None)
    members = sum(it.row["members"] for it in fleet.groups)
    findings = link(address("/findings", cluster=_only_cluster(fleet)), f"{len(fleet.findings):,}")
    is_partial = fleet.partly_known > 0
    rebalances = at_least(number(len(recent))) if is_partial else number(len(recent))
    said_of = f"{'at least ' if is_partial and recent else ''}{_many(len(recent), 'rebalance')} in the last hour"
    shown = bars(counts, words=f"{said_of}, per 5 minutes: {counts}")
    return Markup(f"""<dl class="figures" id="figures">
<div><dt>Open findings</dt><dd>{findings}<ul class="severities">{said or "<li>none</li>"}</ul></dd></div>
<div><dt>Groups</dt><dd>{number(len(fleet.groups))}<small>{_many(members, "member")}</small></dd></div>
<div><dt>Rebalances, last hour</dt><dd>{rebalances}{shown}</dd></div>
<div><dt>Lag, records</dt><dd>{lag}<small>{_unknown_lag(unknown, len(fleet.groups))}</small></dd></div>
</dl>""")


def _only_cluster(fleet: Fleet) -> str | None:
    names = {it.cluster for it in fleet.groups}
    return names.pop() if len(names) == 1 else None


def _unknown_lag(unknown: int, groups: int) -> str:
    if not unknown:
        return "of all groups"
    return "unknown for all groups" if unknown == groups else f"unknown for {_many(unknown, 'group')}"
