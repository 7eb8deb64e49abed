"""What options say against each other, within one cluster and between several. Pure.

What was given at different places is no contradiction where one place wins: `--partitions` on the command line puts
aside a `shard` of the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.config.filters import Filters, looks_like_regex
from agent.config.options import OptionSpec
from agent.config.settings import OPTIONS
from agent.config.value_source import Diagnostics, GivenValue, GivenValues, ValueSource

WHAT_IS_READ = ("group", "partitions", "shard", "share-group")


_EVENTS_GO = ("history-topic", "history-parquet", "otlp")
_NEEDS_TOPIC = ("partitions", "shard", "share-group", "broker-log")


def check_cluster(values: GivenValues, defaults: GivenValues, found: Diagnostics, cluster: str | None) -> None:
    """One cluster's values. Puts aside in `values` what a stronger place replaces.

    A cluster with a name is one of several: what was told to all of them need not say something to each.
    """
    about = "" if cluster is None else f"cluster {cluster}: "
    said_to_it = {name: it for name, it in values.items() if cluster is None or it.source is ValueSource.FILE_CLUSTER}
    idle = [
        it
        for it in OPTIONS.values()
        if it.goes_with and it.name in said_to_it and not any(values[name].value for name in it.goes_with)
    ]
    found.problems += (
        about + text
        for texts in (
            _what_is_read(values, defaults),
            _companions(values, idle),
            _source_problems(values),
            _hidden_groups(values),
            _command_config(values),
        )
        for text in texts
    )
    file = values["command-config"].value
    found.warnings += (
        about + text
        for texts in (
            _idle_companions(values, idle),
            _data_loss_warnings(values),
            _pattern_warnings(values),
            _granularity_warnings(values),
            _worker_warnings(values),
            () if file is None else file.warnings,
        )
        for text in texts
    )


def check_clusters(clusters: Mapping[str, GivenValues], found: Diagnostics) -> None:
    """Several clusters side by side."""
    for option in ("state-dir", "snapshots"):
        places: dict[str, str] = {}
        for name, values in clusters.items():
            value = values[option].value
            if value is None or str(value).startswith("kafka:"):
                continue
            if (other := places.setdefault(str(value), name)) != name:
                found.problems.append(
                    f"{values[option].place}: expected a directory for each cluster, {value} is {other}'s already"
                )
    brokers: dict[str, str] = {}
    for name, values in clusters.items():
        other = brokers.setdefault(values["bootstrap-server"].value, name)
        if other != name:
            found.warnings.append(
                f"clusters {other} and {name} have the same bootstrap-server: each of their groups is shown twice"
            )


def _what_is_read(values: GivenValues, defaults: GivenValues) -> list[str]:
    given = {name: values[name] for name in WHAT_IS_READ if values[name].is_given}
    strongest = max((it.source for it in given.values()), default=ValueSource.DEFAULT)
    chosen = [it for it in given.values() if it.source is strongest]
    for name, it in given.items():
        if it.source < strongest:
            values[name] = defaults[name]
    if len(chosen) <= 1:
        return []
    names = ", ".join(f"--{name}" for name in WHAT_IS_READ)
    return [f"{_places(chosen)}: only one of {names} can say what is read"]


def _companions(values: GivenValues, idle: list[OptionSpec]) -> list[str]:
    return [
        f"{values[it.name].place} goes with {_any_of(it.goes_with)}"
        for it in idle
        if values[it.name].source is ValueSource.COMMAND_LINE
    ]


def _idle_companions(values: GivenValues, idle: list[OptionSpec]) -> list[str]:
    """In a file they may wait for the day on which the other comes; what a stronger place turns off is meant."""
    return [
        f"{values[it.name].place} says nothing without {_any_of(it.goes_with)}"
        for it in idle
        if ValueSource.DEFAULT < values[it.name].source < ValueSource.COMMAND_LINE
        and all(values[name].source <= values[it.name].source for name in it.goes_with)
    ]


def _command_config(values: GivenValues) -> list[str]:
    """What librdkafka cannot do of a file of client properties."""
    it = values["command-config"]
    if it.value is None:
        return []
    beside = [name for name, _ in values["property"].value or ()]
    return [f"{it.place}: {text}" for text in it.value.unsolved_problems(beside)]


def _source_problems(values: GivenValues) -> list[str]:
    source = values["source"]
    if source.value != "admin":
        return []
    out = []
    if not values["admin"].value:
        out.append(f"{source.place}: groups are read from the Admin API, and {values['admin'].place} turns that off")
    if given := [values[name] for name in _NEEDS_TOPIC if values[name].is_given]:
        out.append(f"{_places(given)}: the topic is needed for that, and {source.place} is admin")
    return out


def _hidden_groups(values: GivenValues) -> list[str]:
    groups = values["group"].value
    shows = Filters(values["allow-group"].value, values["deny-group"].value).shows_group
    return [
        f"{values['group'].place}: {group!r} is asked for, and the patterns of groups leave it out"
        for group in groups
        if not shows(group)
    ]


def _data_loss_warnings(values: GivenValues) -> list[str]:
    """What is given up, and what would keep it."""
    history = next((values[name] for name in _EVENTS_GO if values[name].is_given), None)
    snapshots = values["snapshots"].value
    share_group = values["share-group"]
    out = []
    if history is not None and not values["state-dir"].value:
        out.append(
            f"{history.place} without --state-dir: events that wait for it are kept in memory, and a crash loses "
            "those that the topic no longer tells"
        )
    if history is not None and not snapshots and not values["state-dir"].value:
        out.append(
            f"{history.place} without --snapshots: each start writes again, with the same ids, what the topic tells"
        )
    if share_group.is_given and not str(snapshots or "").startswith("kafka:"):
        out.append(
            f"{share_group.place} without --snapshots kafka:TOPIC: a partition that moves to another agent is read "
            "again from its beginning"
        )
    return out


def _granularity_warnings(values: GivenValues) -> list[str]:
    """Other exporters tell of partitions whether asked or not."""
    it, granularity = values["compat-metrics"], values["granularity"].value
    if not it.value or granularity == "partition":
        return []
    return [
        f"{it.place}: those of its metrics that are of single partitions, and sums of offsets, are there with "
        f"--granularity partition; it is {granularity}"
    ]


def _worker_warnings(values: GivenValues) -> list[str]:
    """What keeps the topic from being shared among processes."""
    it, source = values["workers"], values["source"]
    if (it.value or 1) == 1:
        return []
    alone = [values[name] for name in ("share-group", "broker-log", "kubernetes") if values[name].value]
    if source.value == "admin":
        alone.append(source)
    return [f"{it.place}: one process reads all, because of {_places(alone)}"] if alone else []


def _pattern_warnings(values: GivenValues) -> list[str]:
    return [
        f"{values[option].place}: {text!r} is taken for the name itself; a regular expression stands between slashes"
        for option in ("allow-group", "deny-group")
        for text in values[option].value
        if looks_like_regex(text)
    ]


def _places(values: list[GivenValue]) -> str:
    return " and ".join(it.place for it in values)


def _any_of(options: Sequence[str]) -> str:
    return " or ".join(f"--{name}" for name in options)
