"""The numbers above the fleet: what is open, how many groups, how restless, how far behind."""

from __future__ import annotations

from agent.page.fleet import Fleet, binned
from agent.page.markup import address, bars, link, number, severity
from agent.story.words import count
from analyzers.severity import Severity


def figures(fleet: Fleet) -> str:
    """As a list of terms. What is not known of any group is not known, and no 0."""
    severities = fleet.severities()
    said = "".join(
        f"<li>{severity(str(it), f'{severities[it]} {it}')}</li>" for it in reversed(Severity) if severities[it]
    )
    recent = [at for it in fleet.groups for at in it.recent_ms]
    counts = binned(recent, fleet.at_ms)
    lags = [it.row["lag"] for it in fleet.groups if it.row["lag"] is not None]
    unknown = len(fleet.groups) - len(lags)
    lag = number(sum(lags) if lags else None)
    members = sum(it.row["members"] for it in fleet.groups)
    findings = link(address("/findings", cluster=_cluster(fleet)), str(len(fleet.findings)))
    shown = bars(counts, words=f"{count(len(recent), 'rebalance')} in the last hour, in 5 minutes each: {counts}")
    return f"""<dl class="figures" id="figures">
<div><dt>Open findings</dt><dd>{findings}<ul class="severities">{said or "<li>none</li>"}</ul></dd></div>
<div><dt>Groups</dt><dd>{number(len(fleet.groups))}<small>{count(members, "member")}</small></dd></div>
<div><dt>Rebalances, last hour</dt><dd>{number(len(recent) if fleet.has_past else None)}{shown}</dd></div>
<div><dt>Lag, records</dt><dd>{lag}<small>{_unknown(unknown, len(fleet.groups))}</small></dd></div>
</dl>"""


def _cluster(fleet: Fleet) -> str | None:
    names = {it.cluster for it in fleet.groups}
    return names.pop() if len(names) == 1 else None


def _unknown(unknown: int, groups: int) -> str:
    if not unknown:
        return "of all groups"
    return "not known of any group" if unknown == groups else f"not known of {count(unknown, 'group')}"
