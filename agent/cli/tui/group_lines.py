"""One group as lines: facts, map, lag, findings with advice, and what happened, the newest first. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len

from agent.cli.tui.assignment_map import assignment_map
from agent.cli.tui.fleet import JsonView, display_text, severity_rank
from agent.cli.tui.fleet_lines import STATE_STYLES, severity_mark
from agent.cli.tui.group_state import GroupState
from agent.cli.tui.lines import Line, Piece, clipped, fitted, justified, short_number, sparkline, wrapped
from agent.cli.tui.poller import GroupExplanation
from agent.common.units import MINUTE_MS
from agent.core.causes import cause_info
from agent.presentation.narrative.phrases import GROUP_TYPES, epochs
from agent.presentation.narrative.sampling import COUNTED_AS_LAG
from agent.presentation.narrative.staleness import reservations
from agent.presentation.narrative.timeline import TimelineEntry
from agent.presentation.narrative.words import clock, count, day, duration
from agent.presentation.schemas.views import OFFSETS_SEEN

MAX_ENTRIES = 300
"""Lines of what happened that are shown."""
OLD_OFFSETS_MS = MINUTE_MS
"""From so old on it is said when sampled offsets were read: they are read every 20 seconds where all is well."""
MAX_LAGGING_SHOWN = 3
"""Partitions that are named for their lag."""


def fact_lines(watched: GroupState, width: int) -> list[Line]:
    """The group in one or two lines, and whether it may stand otherwise by now."""
    form = watched.form
    if form is None:
        return [((" The group is gone.", "bad"),)]
    state = display_text(form["state"], 24)
    since = form["state_since_ms"]
    for_ = f" for {duration(max(watched.at_ms - since, 0))}" if since is not None and since >= 0 else ""
    kind = GROUP_TYPES.get(form["group_type"], display_text(form["group_type"], 20) + " group")
    rest = [
        kind,
        *([f"{epochs(form['group_type'])} {form['generation']}"] if form["generation"] >= 0 else []),
        *([display_text(form["protocol"], 40)] if form.get("protocol") else []),
        count(len(form["members"]), "member"),
        *([count(form["partitions"], "partition")] if isinstance(form.get("partitions"), int) else []),
        *([count(form["rebalances"], "rebalance")] if isinstance(form.get("rebalances"), int) else []),
    ]
    out = wrapped(
        [(f" {state}", STATE_STYLES.get(state, "bold")), (for_ + " · ", "dim")], " · ".join(rest), width, indent=1
    )
    for said in reservations(form, watched.at_ms):
        out += wrapped([(" ▲ ", "warn")], display_text(said, 1_000), width, "warn", indent=3)
    return out


def heading(text: str, more: str, width: int) -> Line:
    """The line above a section."""
    return ((f" {text} ", "section"), (fitted(f" {more}", max(width - len(text) - 2, 0)), "dim"))


def members_section(watched: GroupState, width: int) -> list[Line]:
    """The map under its heading."""
    form = watched.form
    if form is None:
        return []
    return [heading("Members", "", width), *assignment_map(watched, width)]


def lag_section(watched: GroupState, width: int, height: int = 1) -> list[Line]:
    """Lag over the time it was watched, and the partitions that are furthest behind."""
    form = watched.form
    if form is None:
        return []
    total = form.get("lag")
    known = [value for _, value in watched.lag if value is not None]
    if not isinstance(total, int) and not known:
        return [heading("Lag", "not known", width)]
    now = f"{short_number(total)} record{'' if total == 1 else 's'}" if isinstance(total, int) else "not known now"
    known += [total] if isinstance(total, int) and known else []
    most = f", at most {short_number(max(known))}" if known else ""
    span = f" in {duration(watched.lag[-1][0] - watched.lag[0][0])}" if len(watched.lag) > 1 else ""
    out = [heading("Lag", f"{now}{most}{span}", width)]
    seen_ms = form.get(OFFSETS_SEEN)
    if isinstance(seen_ms, int) and (age_ms := watched.at_ms - seen_ms) >= OLD_OFFSETS_MS:
        text = f"the committed offsets were read {duration(age_ms)} ago; {COUNTED_AS_LAG}"
        out += wrapped([(" ▲ ", "warn")], text, width, "warn", indent=3)
    if len(watched.lag) > 1:
        # Few points on a wide screen: no bar is stretched, so they begin at the left.
        cells = min(width - 2, len(watched.lag))
        out += [((" ", ""), (line, "topic1")) for line in sparkline(watched.lag, cells, height)]
    behind = [it for it in form["offsets"] if isinstance(it.get("lag"), int) and it["lag"] > 0]
    behind.sort(key=lambda it: -it["lag"])
    if behind:
        names = ", ".join(
            f"{display_text(it['topic'], 40)}-{it['partition']} {short_number(it['lag'])}"
            for it in behind[:MAX_LAGGING_SHOWN]
        )
        more = f" and {len(behind) - MAX_LAGGING_SHOWN} more" if len(behind) > MAX_LAGGING_SHOWN else ""
        out += wrapped([(" furthest behind: ", "dim")], names + more, width, indent=2)
    return out


def findings_section(
    findings: Sequence[JsonView], width: int, now_ms: int, *, name_of: Callable[[JsonView], str] | None = None
) -> list[Line]:
    """Open findings, the severest first, each with its advice; `name_of` names the group it is about."""
    if not findings:
        return [heading("Findings", "none open", width)]
    out = [heading("Findings", f"{len(findings)} open", width)]
    for event in sorted(findings, key=lambda it: (-severity_rank(it), it["since_ms"])):
        sign, style = severity_mark(severity_rank(event))
        group = "" if name_of is None else f"{name_of(event)}: "
        first: list[Piece] = [(f" {sign} ", style), (group, "bold"), (display_text(event["analyzer"], 60), style)]
        since = duration(max(now_ms - event["since_ms"], 0))
        # Its summary is written as it opens and grows worse, and not anew with each case.
        severity = f"{display_text(event['severity'], 20)}, open for {since}, as of {clock(event['at_ms'])}"
        text = f"{severity}: {display_text(event['summary'], 1_000)}"
        out += wrapped([*first, (" ", "")], text, width, indent=4)
        if event["advice"]:
            out += wrapped([("    → ", "advice")], display_text(event["advice"], 1_000), width, "advice")
    return out


def timeline_section(watched: GroupState, width: int) -> list[Line]:
    """What happened, the newest first."""
    if not watched.entries:
        return [heading("Rebalances", "nothing happened, as far as events are kept", width)]
    lines = [line for line in watched.entries if line.label != "finding"][::-1]
    times = sum(line.rebalance is not None for line in lines)
    out = (
        [
            heading(
                "Rebalances",
                f"{times} since {day(lines[-1].at_ms)} {clock(lines[-1].at_ms)} UTC, newest first",
                width,
            )
        ]
        if lines
        else []
    )
    last_day = day(watched.at_ms)
    for line in lines[:MAX_ENTRIES]:
        if day(line.at_ms) != last_day:
            last_day = day(line.at_ms)
            out.append(((f" {last_day}", "dim"),))
        out += _entry(line, width)
    if len(lines) > MAX_ENTRIES:
        out.append(((f" … and {len(lines) - MAX_ENTRIES} earlier", "dim"),))
    return out


def _entry(line: TimelineEntry, width: int) -> list[Line]:
    glyph, style = ("·", "dim")
    if line.rebalance is not None:
        glyph, style = cause_info(line.rebalance.cause).terminal
    cost = f"; stopped for {duration(line.cost_ms)}" if line.cost_ms else ""
    first: list[Piece] = [(f" {clock(line.at_ms)} ", "dim"), (f"{glyph} ", style)]
    text = display_text((line.text or line.label) + cost, 1_000)
    head = "" if line.rebalance is None else text.partition(":")[0]
    if head and text.startswith(head + ": "):
        # The generation apart from what made it.
        return wrapped(
            [*first, (head + " ", "bold")], text[len(head) + 2 :], width, "ill" if style == "bad" else "", 12
        )
    return wrapped(first, text, width, "", 12)


def findings_summary(findings: Sequence[JsonView], width: int) -> list[Line]:
    """Open findings, a line each and one for its advice: in full they stand further down."""
    if not findings:
        return [heading("Findings", "none open", width)]
    out = [heading("Findings", f"{len(findings)} open, in full below and with f", width)]
    for event in sorted(findings, key=lambda it: (-severity_rank(it), it["since_ms"])):
        sign, style = severity_mark(severity_rank(event))
        text = f" {sign} {display_text(event['analyzer'], 60)} "
        summary = f"{display_text(event['summary'], 1_000)}"
        out.append(clipped([(text, style), (fitted(summary, max(width - cell_len(text), 1)), "")], width))
        if event["advice"]:
            out.append(
                (("    → ", "advice"), (fitted(display_text(event["advice"], 1_000), max(width - 6, 0)), "advice"))
            )
    return out


def one_column(watched: GroupState, width: int) -> list[Line]:
    """All sections, one below another: what fits one screen first."""
    found = findings_section(watched.findings, width, watched.at_ms)
    parts = [
        fact_lines(watched, width),
        members_section(watched, width),
        lag_section(watched, width),
        findings_summary(watched.findings, width),
        timeline_section(watched, width),
        found if watched.findings else [],
    ]
    return [line for part in parts for line in part]


def left_column(watched: GroupState, width: int) -> list[Line]:
    """Of two columns the left one: who has what, and how far behind."""
    gap: list[Line] = [()]
    parts = [fact_lines(watched, width), members_section(watched, width), lag_section(watched, width, 4)]
    return [line for part in parts for line in [*part, *gap]]


def right_column(watched: GroupState, width: int) -> list[Line]:
    """The right one: what is wrong, and what happened."""
    found = findings_section(watched.findings, width, watched.at_ms)
    return [*found, (), *timeline_section(watched, width)]


def explained_lines(it: GroupExplanation, width: int) -> list[Line]:
    """The story, as `kshadow explain` prints it."""
    if not it.sections:
        return [((" There is no such group any more.", "bad"),)]
    out: list[Line] = []
    for title, texts in it.sections:
        if title:
            out += [(), ((f" {title}", "section"),)]
        for text in texts:
            first = "  - " if title and len(texts) > 1 else "  " if title else " "
            out += wrapped([(first, "dim")], text, width - 1)
    return out


def title_line(name: str, watched: GroupState | None, width: int) -> Line:
    """The group's name, and how it is, above its page."""
    if watched is None:
        return justified([(f" {name} ", "title")], [("◌ asking ", "dim")], width)
    worst = max((severity_rank(event) for event in watched.findings), default=-1)
    sign, style = severity_mark(worst)
    right: list[Piece] = [(f"{sign} {count(len(watched.findings), 'finding')} ", style)] if watched.findings else []
    return justified([(f" {name} ", "title")], right, width)
