"""The queries' parts.

What a group has may come from two agents at a time (a sidecar and a central one, shards that move), so the largest
of what they say is taken, by cluster and group, and nothing is summed over them. Where one cluster is read there is
no label `cluster`; every expression works without it.

Counters of rare events are compared with themselves one bar earlier, not put through `rate`: whole numbers come out,
each event is in exactly one bar, and the first one of its cause counts, whose series begins with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from agent.core.causes import TIMEOUT_CAUSES
from agent.serving.metrics.table import METRICS
from helm.dashboards.looks import OTHER_STATE, SEVERITIES, STATES

GROUPS: Final = 'job=~"$job", cluster=~"$cluster", group=~"$match"'
"""Of the fleet."""
GROUP: Final = 'job=~"$job", cluster=~"$cluster", group=~"$group"'
TOPICS: Final = GROUP + ', topic=~"$topic"'
AGENT: Final = 'job=~"$job", instance=~"$instance", cluster=~"$cluster"'
AT_END: Final = "[$__range] @ end()"
"""The whole range, also for each of its points."""
PROCESS: Final = 'job=~"$job", instance=~"$instance"'
"""Of what is told once for a process, however many clusters it reads."""

ALERTS: Final = 'ALERTS{alertname=~"Kshadow.+", alertstate="firing"'

BY_GROUP: Final = ("cluster", "group")
BY_AGENT: Final = ("cluster", "instance")


def series(name: str) -> str:
    """A metric of the exporter's table as Prometheus knows it. Raises `KeyError` where there is none."""
    return f"{name}_total" if METRICS[name].kind == "counter" else name


def selected(name: str, where: str, *more: str) -> str:
    """A selector."""
    return f"{series(name)}{{{', '.join([where, *more])}}}"


def most(name: str, where: str, *by: str) -> str:
    """The largest of what agents say, by cluster, group and more."""
    return f"max by ({', '.join((*BY_GROUP, *by))}) ({selected(name, where)})"


def of_agent(name: str, *by: str) -> str:
    """What each agent says of each cluster."""
    return f"max by ({', '.join((*BY_AGENT, *by))}) ({selected(name, AGENT)})"


def since_last_bar(name: str, where: str, *by: str, each: tuple[str, ...] = BY_GROUP, seen: str = "") -> str:
    """How often something happened since the bar before: a whole number.

    What is compared with is, the first that there is: the counter one bar earlier; zero for a series that began
    later than its group (`each`; `seen` is a metric that each of them always has), which was there a bar earlier or
    has more samples; and for a group that came within the bar what its counter said first, since that is history that
    an agent just read. A counter that an agent began anew counts as nothing until it grows. The rate interval is a
    bar and a scrape.
    """
    counter, there = selected(name, where), selected(seen or "kshadow_group_members", where)
    label = f"max by ({', '.join((*each, *by))})"
    matching = f"ignoring ({', '.join(by)}) " if by else ""
    began = _began(counter, there, by, "[$__rate_interval]")
    before = (
        f"{label} ({counter} offset $__interval)",
        f"0 * {label} ({counter} and {matching}({there} offset $__interval) or {counter} and ({began}))",
        f"{label} (min_over_time({counter}[$__rate_interval]))",
    )
    return f"clamp_min({label} ({counter}) - ({' or '.join(before)}), 0)"


def in_range(name: str, where: str, *by: str, matching: str = "", over: str = "[$__range]") -> str:
    """How much a group's counter grew within the range shown, the first growth of a series included.

    `increase` sees nothing of a series that begins with its first event. One that has fewer samples in the range than
    its group has began in it, and all that it counts happened since. `matching` chooses among the counter's labels.
    """
    there = selected("kshadow_group_members", where)
    counter = selected(name, where, matching) if matching else selected(name, where)
    began = _began(counter, there, by, over)
    grown = f"(last_over_time({counter}{over}) and ({began})) or increase({counter}{over})"
    return f"max by ({', '.join((*BY_GROUP, *by))}) ({grown})"


def timeouts_in_range(where: str) -> str:
    """Members thrown out within the range shown."""
    timeouts = f'cause=~"{"|".join(TIMEOUT_CAUSES)}"'
    return in_range("kshadow_group_member_departures", where, "cause", matching=timeouts)


def _began(counter: str, there: str, by: Sequence[str], over: str) -> str:
    """The series of a counter that began within a range of time in which whatever it is of was there before."""
    matching = f"ignoring ({', '.join(by)}) group_left " if by else ""
    return f"count_over_time({counter}{over}) < {matching}count_over_time({there}{over})"


def linked(query: str) -> str:
    """With a label that a link to the group's dashboard hands on as its cluster, where there is no such label too."""
    named = f'label_replace({query}, "link", "$1", "cluster", "(.+)")'
    return f'label_replace({named}, "link", "All", "cluster", "")'


def state_code(where: str) -> str:
    """Each group's state as a number of `looks.STATES`."""
    codes = {str(state): shown.code for state, shown in STATES.items()}
    other = f"{selected('kshadow_group_state', where)} * {OTHER_STATE.code}"
    return f"max by ({', '.join(BY_GROUP)}) ({_coded('kshadow_group_state', where, 'state', codes)} or {other})"


def severity_code(where: str, *by: str) -> str:
    """The worst that analyzers hold open as a number of `looks.SEVERITIES`; 0 where all is closed again."""
    codes = {str(severity): shown.code for severity, shown in SEVERITIES.items()}
    return f"max by ({', '.join((*BY_GROUP, *by))}) ({_coded('kshadow_finding_active', where, 'severity', codes)})"


def _coded(name: str, where: str, label: str, codes: Mapping[str, int]) -> str:
    return " or ".join(f"{selected(name, where, _is(label, value))} * {code}" for value, code in codes.items())


def _is(label: str, value: str) -> str:
    return f'{label}="{value}"'


def rate(name: str, where: str, *by: str) -> str:
    """By agent, how much a second."""
    return f"max by ({', '.join((*BY_AGENT, *by))}) (rate({selected(name, where)}[$__rate_interval]))"


def counted_or_none(name: str) -> str:
    """A counter by reason since the agent's start, zero for agents that have none: it begins with the first event."""
    counted, agents = of_agent(name, "reason"), of_agent("kshadow_source_healthy")
    none = f'label_replace(0 * {agents}, "reason", "none", "", "")'
    return f"{counted} or {none} unless on (cluster, instance) {counted}"


def process(name: str) -> str:
    """A metric of Python's client library, of kshadow's processes alone."""
    return f"{name}{{{PROCESS}}} and on (job, instance) kshadow_build_info{{{PROCESS}}}"
