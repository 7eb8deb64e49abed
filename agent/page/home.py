"""The fleet: what is wrong, and every group, those in trouble first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import ceil

from agent.page.figures import figures
from agent.page.findings import brief
from agent.page.fleet import SORTS, Fleet, Group, Row, binned
from agent.page.frame import Page
from agent.page.markup import (
    address,
    ago,
    bars,
    group_address,
    link,
    name,
    number,
    severity,
    state,
    text,
)
from agent.story.words import capital, count
from analyzers.severity import Severity

ROWS = 100
"""Rows of a page of the table: more nobody reads, and each costs time to make, to send and to show."""
MOST_FINDINGS = 5
"""Open findings that are shown above the groups."""
MOST_CHIPS = 3
"""Findings that are named in a group's row."""
MAX_QUERY = 200
MAX_WORDS = 8

DEFAULT = "trouble"
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which of the groups, and how: what the address says, and whatever it says, something can be shown."""

    query: str = ""
    sort: str = DEFAULT
    page: int = 1
    cluster: str | None = None

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> Wanted:
        """From an address."""
        sort = asked.get("sort", DEFAULT)
        page = asked.get("page", "1")
        return cls(
            asked.get("q", "").strip()[:MAX_QUERY],
            sort if sort.removeprefix("-") in SORTS else DEFAULT,
            int(page) if page.isascii() and page.isdecimal() and len(page) < 7 else 1,
            asked.get("cluster"),
        )

    def address(self, **changed: str | None) -> str:
        """The same with something else: what is as always is left out."""
        said = {
            "q": self.query or None,
            "sort": None if self.sort == DEFAULT else self.sort,
            "page": None if self.page < 2 else str(self.page),
            "cluster": self.cluster,
        }
        return address("/", **{**said, **changed})


def home(fleet: Fleet, wanted: Wanted, clusters: Sequence[str] = ()) -> Page:
    """The page. `clusters` are the names of all, where there are several."""
    words = wanted.query.lower().split()[:MAX_WORDS]
    found = [it for it in fleet.by(wanted.sort) if it.matches(words)] if words else fleet.by(wanted.sort)
    headline = _headline(fleet)
    body = f"""<div class="lead">
<h1 id="headline">{headline}</h1>
<p class="under" id="under">{_under(fleet)}</p>
</div>
{_clusters(wanted, clusters)}{figures(fleet)}
{_findings(fleet, wanted)}
{_groups(fleet, found, wanted)}"""
    return Page(
        title="Fleet",
        body=body,
        at_ms=fleet.at_ms,
        place="fleet",
        says=f"{headline}. {count(len(fleet.findings), 'open finding')}.",
        ready=fleet.ready,
        version=version_of(fleet, wanted),
        cluster=wanted.cluster,
    )


def version_of(fleet: Fleet, wanted: Wanted) -> str:
    """What tells one state of the page from another. A minute later, bars have moved."""
    asked = blake2b(repr(wanted).encode("utf-8", "backslashreplace"), digest_size=4).hexdigest()
    return f"{fleet.version}-{fleet.at_ms // 60_000}-{asked}"


def _headline(fleet: Fleet) -> str:
    if not fleet.groups:
        return "No groups yet"
    if not fleet.has_past:
        # Nobody looks for findings then.
        return count(len(fleet.groups), "group")
    wrong = sum(it.worst > 1 for it in fleet.groups)
    if wrong:
        return f"{wrong} of {count(len(fleet.groups), 'group')} {'needs' if wrong == 1 else 'need'} a look"
    everyone = f"{count(len(fleet.groups), 'group')}, nothing wrong" if len(fleet.groups) > 1 else "Nothing wrong"
    return everyone if not fleet.findings else f"{count(len(fleet.groups), 'group')}, nothing urgent"


def _under(fleet: Fleet) -> str:
    said = ["the agent has caught up" if fleet.ready.ready else "the agent does not see"]
    if fleet.has_past:
        restless = sum(bool(it.recent_ms) for it in fleet.groups)
        last = f"{count(restless, 'group')} rebalanced within the last hour"
        said.insert(0, last if restless else "no rebalance for an hour")
    if fleet.ready.ready:
        # What else there is to say, where all is well otherwise.
        said += [it for it in fleet.ready.reason.split("; ") if it != "caught up"]
    return f"{text(capital('; '.join(said)), 600)}."


def _clusters(wanted: Wanted, clusters: Sequence[str]) -> str:
    if not clusters:
        return ""
    chosen = [
        link(wanted.address(cluster=name, page=None), text(words), **_current(name == wanted.cluster))
        for name, words in [(None, "All clusters"), *((it, it) for it in clusters)]
    ]
    return f'<nav class="chips" aria-label="Clusters" id="clusters">{"".join(chosen)}</nav>'


def _current(it: bool) -> dict[str, str]:
    return {"aria_current": "true"} if it else {}


def _findings(fleet: Fleet, wanted: Wanted) -> str:
    if not fleet.findings:
        return ""
    shown = fleet.findings[:MOST_FINDINGS]
    rest = len(fleet.findings) - len(shown)
    several = any(it.cluster is not None for it in fleet.groups)
    items = "".join(brief(it, fleet.at_ms, several=several) for it in shown)
    more = link(address("/findings", cluster=wanted.cluster), f"All {len(fleet.findings)} open findings")
    return f"""<section aria-labelledby="findings-title" id="findings">
<h2 id="findings-title">What is wrong</h2>
<ul class="findings rows">{items}</ul>
{f'<p class="more">{more}</p>' if rest else ""}
</section>"""


def _groups(fleet: Fleet, found: Sequence[Group], wanted: Wanted) -> str:
    pages = max(1, ceil(len(found) / ROWS))
    page = min(max(wanted.page, 1), pages)
    first = (page - 1) * ROWS
    shown = found[first : first + ROWS]
    several = any(it.cluster is not None for it in fleet.groups)
    said = f"{len(found)} of {count(len(fleet.groups), 'group')}" if wanted.query else count(len(found), "group")
    span = f"; {first + 1} to {first + len(shown)} shown" if pages > 1 else ""
    kept = "".join(
        f'<input type="hidden" name="{name}" value="{text(value)}">'
        for name, value in (("sort", wanted.sort if wanted.sort != DEFAULT else None), ("cluster", wanted.cluster))
        if value is not None
    )
    rows = "".join(_row(it, fleet.at_ms, several) for it in shown)
    none = "" if shown else f'<p class="none" id="none">{_none(wanted)}</p>'
    return f"""<section aria-labelledby="groups-title" id="groups">
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
<div class="scroll" role="region" aria-label="Table of groups" tabindex="0">
<table class="groups rows">
<caption class="sr">Groups, {_sorted(wanted.sort)}</caption>
<thead><tr>{"".join(_head(it, wanted) for it in COLUMNS)}</tr></thead>
<tbody id="rows">{rows}</tbody>
</table>
</div>{none}{_pager(wanted, page, pages)}
</section>"""


def _none(wanted: Wanted) -> str:
    if not wanted.query:
        return "No group is known. One shows up once it has members or commits an offset."
    return f"No group matches <q>{text(wanted.query)}</q>. {link(wanted.address(q=None, page=None), 'Show all')}"


def _sorted(sort: str) -> str:
    if sort == DEFAULT:
        return "those in trouble first"
    key = sort.removeprefix("-")
    heads = {column: head for column, head, _, _ in COLUMNS}
    return f"by {heads.get(key, key).lower()}{', backwards' if sort.startswith('-') else ''}"


def _by_trouble(wanted: Wanted) -> str:
    if wanted.sort == DEFAULT:
        return '<p class="order" id="order">Those in trouble first</p>'
    back = link(wanted.address(sort=None, page=None), "Those in trouble first", data_swap="")
    return f'<p class="order" id="order">Sorted {_sorted(wanted.sort)}. {back}</p>'


def _head(column: tuple[str, str, str, str], wanted: Wanted) -> str:
    key, words, first, how = column
    now = wanted.sort.removeprefix("-") == key
    backwards = wanted.sort.startswith("-")
    other = f"{'' if backwards else '-'}{key}" if now else first
    aria = f' aria-sort="{"descending" if backwards else "ascending"}"' if now else ""
    arrow = f'<span aria-hidden="true" class="arrow">{"↓" if backwards else "↑"}</span>' if now else ""
    shown = link(wanted.address(sort=other, page=None), f"{words}{arrow}", data_swap="")
    return f'<th scope="col" class="{how}"{aria}>{shown}</th>'


def _row(it: Group, now_ms: int, several: bool) -> str:
    row = it.row
    href = group_address(it.name, it.cluster)
    chips = "".join(severity(event["severity"], event["analyzer"]) for event in it.findings[:MOST_CHIPS])
    if len(it.findings) > MOST_CHIPS:
        chips += f'<span class="severity">and {len(it.findings) - MOST_CHIPS} more</span>'
    counts = binned(it.recent_ms, now_ms)
    trend = (
        bars(counts, words=f"in 5 minutes each: {', '.join(map(str, counts))}", most=3)
        if it.recent_ms
        else '<span class="bars"></span>'
    )
    recent = number(None if row["rebalances"] is None else len(it.recent_ms))
    where = f'<span class="kind">{text(it.cluster)}</span>' if several else ""
    kind = "" if row["group_type"] == "classic" else f'<span class="kind">{text(row["group_type"])}</span>'
    worst = f" worst-{Severity.of(it.findings[0]['severity'])}" if it.findings else ""
    return (
        f'<tr data-key="{text(href or it.name, 100_000)}" class="row{worst}">'
        f'<th scope="row" class="name">{link(href, name(it.name))}{where}{kind}'
        f"{f'<span class=chips-of>{chips}</span>' if chips else ''}</th>"
        f'<td data-label="State">{state(row["state"])}</td>'
        f'<td class="number" data-label="Members">{number(row["members"])}</td>'
        f'<td class="number" data-label="Partitions">{number(row["partitions"])}</td>'
        f'<td class="number" data-label="Lag">{number(row["lag"])}</td>'
        f'<td class="number trend" data-label="Rebalances, 1 h">{trend}<b>{recent}</b></td>'
        f'<td class="number" data-label="Last commit">{_commit(row, now_ms)}</td></tr>'
    )


def _commit(row: Row, now_ms: int) -> str:
    none = "not known" if row["rebalances"] is None else "never"
    return ago(row["last_commit_ms"], now_ms, none=none)


def _pager(wanted: Wanted, page: int, pages: int) -> str:
    if pages == 1:
        return ""
    before = None if page == 1 else wanted.address(page=None if page == 2 else str(page - 1))
    after = None if page == pages else wanted.address(page=str(page + 1))
    links = [
        link(href, words, data_swap="", rel=rel) if href else f'<span class="off">{words}</span>'
        for href, words, rel in ((before, "Previous", "prev"), (after, "Next", "next"))
    ]
    said = f"Page {page} of {pages}"
    return f'<nav class="pager" aria-label="Pages of groups" id="pager">{links[0]}<span>{said}</span>{links[1]}</nav>'
