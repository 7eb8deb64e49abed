"""The tables of a group's page: its members and what they hold, how far it is behind, what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.core.inference.origins import origin_words
from agent.core.protocol.client_libraries import UNKNOWN
from agent.presentation.json_views import lag_total
from agent.presentation.markup import Markup
from agent.presentation.narrative.phrases import work
from agent.presentation.narrative.sampling import COUNTED_AS_LAG
from agent.presentation.narrative.timeline import TimelineEntry
from agent.presentation.narrative.words import count, day, duration, grouped
from agent.presentation.schemas.views import OFFSETS_SEEN
from agent.serving.page.markup import (
    ago,
    at,
    hidden,
    more,
    name,
    number,
    number_ranges,
    section,
    sentences,
    severity,
    table,
    text,
)

Form = Mapping[str, Any]

MAX_ENTRIES = 200
"""Lines of what happened; the newest are shown."""
MAX_MEMBERS = 300
MAX_TOPICS = 200
"""Rows of the tables; the API has all."""
MAX_TOPIC_NAMES = 12
"""Topics of a member that are named."""


def events_section(lines: Sequence[TimelineEntry], now_ms: int, none: str) -> Markup:
    """What happened, the newest first; `none` stands there where nothing did."""
    newest = [*reversed(lines)][:MAX_ENTRIES]
    rest = len(lines) - len(newest)
    today = day(now_ms)
    rows = "".join(_entry(it, today) for it in newest)
    if not rows:
        return section("events", "Events", f'<p class="none">{none}</p>')
    heads = """<th scope="col">Time</th><th scope="col">Event</th>
<th scope="col" class="number">Stopped</th>"""
    shown = table("events", "events", "Events, newest first", heads, rows, body_id="entries")
    return section("events", "Events", shown + more(rest, "older events: choose a shorter range, or use the API."))


def _entry(entry: TimelineEntry, today: str) -> Markup:
    cost = "" if entry.cost_ms is None else duration(entry.cost_ms)
    found = entry.events[0]
    label = severity(found["severity"], "finding") if entry.label == "finding" else f"<b>{text(entry.label)}</b>"
    if entry.label == "finding" and found["state"] == "resolved":
        label = "<b>resolved</b>"
    return Markup(
        f'<tr data-key="{text(found["event_id"])}"><td class="at">{at(entry.at_ms, today)}</td>'
        f'<td class="what">{label} {sentences(entry.text)}</td><td class="number">{cost}</td></tr>'
    )


def members_section(form: Form | None, *, with_assignment: bool = True) -> Markup:
    """Who is in the group; those that hold most first. `with_assignment`: what each holds, too."""
    if form is None or not form["members"]:
        return Markup("")
    members = sorted(form["members"], key=lambda it: (-_held(it), it["client_id"], it["member_id"]))
    most = max(map(_held, members))
    noun = work(form["group_type"])
    leader = form.get("leader")
    rows = "".join(_member(it, most, it["member_id"] == leader, with_assignment) for it in members[:MAX_MEMBERS])
    which = '<th scope="col">Assigned</th>' if with_assignment else ""
    heads = f"""<th scope="col">Client</th><th scope="col">Host</th>
<th scope="col" class="number">{noun.capitalize()}s</th>
{which}<th scope="col" class="number">Session timeout</th>"""
    shown = table("members", "members", "Members, by number of partitions", heads, rows)
    return section("members", "Members", shown + more(len(members) - MAX_MEMBERS, "more members."))


def _held(member: Form) -> int:
    return sum(map(len, member["assignment"].values()))


def _member(member: Form, most: int, leads: bool, with_assignment: bool) -> Markup:
    held = _held(member)
    share = round(80 * held / most) if most else 0
    static = (
        f'<span class="kind" title="static member: its group.instance.id">{text(member["instance_id"])}</span>'
        if member["instance_id"]
        else ""
    )
    leader = '<span class="kind">leader</span>' if leads else ""
    why = text(member["library_evidence"], 1_000)
    is_known = member["client_library"] != UNKNOWN
    library = f'<span class="kind" title="{why}">{text(member["client_library"])}</span>' if is_known else ""
    came = _origin(member.get("origin"))
    session = member["session_timeout_ms"]
    said = duration(session) if isinstance(session, int) and session >= 0 else number(None)
    which = f'<td class="which">{_assignment(member["assignment"])}</td>' if with_assignment else ""
    # A long one, as of a client id of kilobytes, is its own at its end.
    key = text(member["member_id"][-1_000:], 10_000)
    return Markup(
        f'<tr data-key="{key}"><th scope="row" class="name">'
        f'<span title="{text(member["member_id"])}">{name(member["client_id"] or member["member_id"])}</span>'
        f"{static}{leader}{library}{came}</th>"
        f"<td>{text(member['client_host'].lstrip('/'))}</td>"
        f'<td class="number">{held if held else "none"}<svg class="share" viewBox="0 0 80 6" width="80" height="6" '
        f'aria-hidden="true"><rect width="80" height="6" rx="3" class="ground"/>'
        f'<rect width="{share}" height="6" rx="3"/></svg></td>'
        f'{which}<td class="number">{said}</td></tr>'
    )


def _origin(origin: Form | None) -> Markup:
    """How its pod came, where Kubernetes tells."""
    if origin is None:
        return Markup("")
    words = origin_words(str(origin["kind"]), origin["exit_code"])
    said = f"pod {origin['pod']}: {origin['message']}"
    return Markup(f'<span class="kind" title="{text(said, 400)}">{text(words)}</span>')


def _assignment(assignment: Mapping[str, Sequence[int]]) -> Markup:
    shown = [*assignment.items()][:MAX_TOPIC_NAMES]
    out = " ".join(f'<span class="topic">{name(topic)}<b>{number_ranges(its)}</b></span>' for topic, its in shown)
    rest = len(assignment) - len(shown)
    return Markup(f"{out} and {count(rest, 'more topic')}" if rest else out or hidden("nothing"))


def lag_section(form: Form | None, now_ms: int) -> Markup:
    """How far it is behind by topic; the farthest first."""
    if form is None or not form["offsets"]:
        return Markup("")
    topics = grouped(form["offsets"], lambda it: str(it["topic"]))
    by_lag = sorted(topics.items(), key=lambda it: (-(lag_total(it[1]) or 0), it[0]))
    rows = "".join(_topic(topic, its, now_ms) for topic, its in by_lag[:MAX_TOPICS])
    heads = """<th scope="col">Topic</th><th scope="col" class="number">Partitions</th>
<th scope="col" class="number">Lag, records</th><th scope="col" class="number">Lag, time</th>
<th scope="col" class="number">Largest partition lag</th><th scope="col" class="number">Last commit</th>"""
    caption = "Committed offsets and lag by topic, the greatest lag first"
    shown = table("lags", "lag by topic", caption, heads, rows)
    seen = Markup("")
    if form.get(OFFSETS_SEEN) is not None:
        when = ago(form[OFFSETS_SEEN], now_ms)
        seen = Markup(f'<p class="more">The committed offsets were read {when}; {COUNTED_AS_LAG}.</p>')
    return section("lag", "Lag by topic", seen + shown + more(len(topics) - MAX_TOPICS, "more topics."))


def _topic(topic: str, its: Sequence[Form], now_ms: int) -> Markup:
    waits = [it["lag_seconds"] for it in its if it.get("lag_seconds") is not None]
    commits = [it["committed_ms"] for it in its if it["committed_ms"] is not None]
    known = [it for it in its if it["lag"] is not None]
    worst = max(known, key=lambda it: it["lag"], default=None)
    most = number(None)
    if worst is not None:
        which = f"<small>partition {worst['partition']}</small>" if worst["lag"] else ""
        most = Markup(f"{number(worst['lag'])}{which}")
    total = lag_total(its)
    slowest = number(None) if total is None or not waits else duration(round(max(waits) * 1000))
    return Markup(
        f'<tr data-key="{text(topic, 1_000)}"><th scope="row" class="name">{name(topic)}</th>'
        f'<td class="number">{len(its)}</td><td class="number">{number(total)}</td>'
        f'<td class="number">{slowest}</td><td class="number">{most}</td>'
        f'<td class="number">{ago(max(commits, default=None), now_ms)}</td></tr>'
    )
