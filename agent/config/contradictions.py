"""What options say against each other, within one cluster and between several. Pure.

What was given at different places is no contradiction where one place wins: `--partitions` on the command line puts
aside a `shard` of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agent.config.filters import Filters, looks_like_regex
from agent.config.given import Rank, Value, Values, Verdict

WHAT_IS_READ = ("group", "partitions", "shard", "share-group")


class _Companion(NamedTuple):
    """An option that says nothing without one of some others."""

    option: str
    needs: tuple[str, ...]

    @property
    def others(self) -> str:
        """Those, for a sentence."""
        return " or ".join(f"--{name}" for name in self.needs)


_COMPANIONS = (
    _Companion("share-instance-id", ("share-group",)),
    _Companion("broker-log-timezone", ("broker-log",)),
    _Companion("snapshot-interval", ("snapshots", "state-dir")),
    _Companion("history-topic-create", ("history-topic",)),
    _Companion("history-roll", ("history-parquet",)),
    _Companion("history-samples", ("history-topic", "history-parquet")),
    _Companion("spool-size", ("state-dir",)),
    _Companion("admin-rate", ("admin",)),
    _Companion("lag-interval", ("lag",)),
)

_OF_THE_LOG = ("partitions", "shard", "share-group", "snapshots", "history-topic", "history-parquet", "broker-log")


def judge(values: Values, defaults: Values, verdict: Verdict, cluster: str | None) -> None:
    """One cluster's values. Puts aside in `values` what a stronger place replaces.

    A cluster with a name is one of several: what was told to all of them need not say something to each.
    """
    about = "" if cluster is None else f"cluster {cluster}: "
    said_to_it = {name: it for name, it in values.items() if cluster is None or it.rank is Rank.FILE_CLUSTER}
    idle = [it for it in _COMPANIONS if it.option in said_to_it and not any(values[name].value for name in it.needs)]
    problems = [*_what_is_read(values, defaults), *_companions(values, idle), *_source(values), *_unneeded(values)]
    problems += _command_config(values)
    warnings = [*_idle_companions(values, idle), *_losses(values), *_patterns(values), *_too_coarse(values)]
    file = values["command-config"].value
    warnings += () if file is None else file.warnings
    verdict.problems += (about + text for text in problems)
    verdict.warnings += (about + text for text in warnings)


def judge_all(clusters: Mapping[str, Values], verdict: Verdict) -> None:
    """Several clusters side by side."""
    for option in ("state-dir", "snapshots"):
        places: dict[str, str] = {}
        for name, values in clusters.items():
            value = values[option].value
            if value is None or str(value).startswith("kafka:"):
                continue
            if (other := places.setdefault(str(value), name)) != name:
                verdict.problems.append(
                    f"{values[option].where}: a directory for each cluster expected, {value} is {other}'s already"
                )
    brokers: dict[str, str] = {}
    for name, values in clusters.items():
        other = brokers.setdefault(values["bootstrap-server"].value, name)
        if other != name:
            verdict.warnings.append(
                f"clusters {other} and {name} have the same bootstrap-server: each of their groups is shown twice"
            )


def _what_is_read(values: Values, defaults: Values) -> list[str]:
    given = {name: values[name] for name in WHAT_IS_READ if values[name].is_given}
    strongest = max((it.rank for it in given.values()), default=Rank.DEFAULT)
    chosen = [it for it in given.values() if it.rank is strongest]
    for name, it in given.items():
        if it.rank < strongest:
            values[name] = defaults[name]
    if len(chosen) <= 1:
        return []
    names = ", ".join(f"--{name}" for name in WHAT_IS_READ)
    return [f"{_all(chosen)}: only one of {names} can say what is read"]


def _companions(values: Values, idle: list[_Companion]) -> list[str]:
    return [
        f"{values[it.option].where} goes with {it.others}"
        for it in idle
        if values[it.option].rank is Rank.COMMAND_LINE
    ]


def _idle_companions(values: Values, idle: list[_Companion]) -> list[str]:
    """In a file they may wait for the day on which the other comes; what a stronger place turns off is meant."""
    return [
        f"{values[it.option].where} says nothing without {it.others}"
        for it in idle
        if Rank.DEFAULT < values[it.option].rank < Rank.COMMAND_LINE
        and all(values[name].rank <= values[it.option].rank for name in it.needs)
    ]


def _command_config(values: Values) -> list[str]:
    """What librdkafka cannot do of a file of client properties."""
    it = values["command-config"]
    if it.value is None:
        return []
    return [f"{it.where}: {text}" for text in it.value.unmended(name for name, _ in values["property"].value or ())]


def _source(values: Values) -> list[str]:
    source = values["source"]
    if source.value != "admin":
        return []
    out = []
    if not values["admin"].value:
        out.append(f"{source.where}: groups are read from the Admin API, and {values['admin'].where} turns that off")
    if given := [values[name] for name in _OF_THE_LOG if values[name].is_given]:
        out.append(f"{_all(given)}: the topic is needed for that, and {source.where} is admin")
    return out


def _unneeded(values: Values) -> list[str]:
    groups = values["group"].value
    shows = Filters(values["allow-group"].value, values["deny-group"].value).shows_group
    return [
        f"{values['group'].where}: {group!r} is asked for, and the patterns of groups leave it out"
        for group in groups
        if not shows(group)
    ]


def _losses(values: Values) -> list[str]:
    """What is given up, and what would keep it."""
    history = next((values[name] for name in ("history-topic", "history-parquet") if values[name].is_given), None)
    snapshots = values["snapshots"].value
    share_group = values["share-group"]
    out = []
    if history is not None and not values["state-dir"].value:
        out.append(
            f"{history.where} without --state-dir: events that wait for it are kept in memory, and a crash loses "
            "those that the topic no longer tells"
        )
    if history is not None and not snapshots and not values["state-dir"].value:
        out.append(
            f"{history.where} without --snapshots: each start writes again, with the same ids, what the topic tells"
        )
    if share_group.is_given and not str(snapshots or "").startswith("kafka:"):
        out.append(
            f"{share_group.where} without --snapshots kafka:TOPIC: a partition that moves to another agent is read "
            "again from its beginning"
        )
    return out


def _too_coarse(values: Values) -> list[str]:
    """Other exporters tell of partitions whether asked or not."""
    it, granularity = values["compat-metrics"], values["granularity"].value
    if not it.value or granularity == "partition":
        return []
    return [
        f"{it.where}: those of its metrics that are of single partitions, and sums of offsets, are there with "
        f"--granularity partition; it is {granularity}"
    ]


def _patterns(values: Values) -> list[str]:
    return [
        f"{values[option].where}: {text!r} is taken for the name itself; a regular expression stands between slashes"
        for option in ("allow-group", "deny-group")
        for text in values[option].value
        if looks_like_regex(text)
    ]


def _all(values: list[Value]) -> str:
    return " and ".join(it.where for it in values)
