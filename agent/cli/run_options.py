"""The options of `kshadow run`, and the types of their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from agent.cli.options import (
    Decorator,
    analyzer_options,
    bootstrap_option,
    broker_log_options,
    command_config_option,
    option,
    property_option,
)
from agent.cli.times import Duration


class Parsed(click.ParamType[Any]):
    """What a function of `agent.config.values` or `agent.config.filters` makes of a text."""

    def __init__(self, name: str, where: str, *, keeps_text: bool = False) -> None:
        """`where` is `module:function`, imported when a value comes. One that `keeps_text` only checks."""
        self.name = name
        self._where, self._keeps_text = where, keeps_text

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse it."""
        from importlib import import_module

        if not isinstance(value, str):
            return value
        module, function = self._where.split(":")
        try:
            parsed = getattr(import_module(f"agent.config.{module}"), function)(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return value if self._keeps_text else parsed


class Span(Duration):
    """A duration of at least so long, in milliseconds; None for `never`, where that is one."""

    def __init__(self, least: str, *, never: bool = False) -> None:
        super().__init__()
        self._least, self._never = least, never

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse it."""
        if self._never and value == "never":
            return None  # type: ignore[return-value]  # click takes it for what it is
        duration_ms = super().convert(value, param, ctx)
        if duration_ms < super().convert(self._least, param, ctx):
            self.fail(f"at least {self._least} expected, {value!r} came", param, ctx)
        return duration_ms


GROUP_PATTERN = Parsed("PATTERN", "filters:check_pattern", keeps_text=True)
TOPIC_PATTERN = Parsed("PATTERN", "filters:check_topic_pattern", keeps_text=True)
TOPIC = Parsed("TOPIC", "values:parse_topic")

_PATTERN_HELP = (
    "a name, or /a regular expression/ (RE2's) for the whole name. Repeatable; blanks part those in the variable."
)

_READING: tuple[Decorator, ...] = (
    option(
        "--cluster",
        type=Parsed("NAME", "values:parse_cluster"),
        help="What you call the cluster: a field of its events, and a label where several are read.",
    ),
    bootstrap_option,
    command_config_option,
    property_option,
    option(
        "--source",
        type=click.Choice(["topic", "admin"]),
        default="topic",
        show_default=True,
        help="Where groups are read from: the topic, or, where you may not read that, the Admin API alone, which "
        "knows no history.",
    ),
    option(
        "--group",
        "groups",
        multiple=True,
        help="Read only the partitions that hold these groups, as a sidecar does. Repeatable.",
    ),
    option(
        "--partitions",
        type=Parsed("0-24,30", "values:parse_partitions"),
        metavar="0-24,30",
        help="Read only these partitions of the topic.",
    ),
    option(
        "--shard",
        type=Parsed("I/N", "values:parse_shard"),
        metavar="I/N",
        help="Read one of N equal shares of the partitions, counted from 0; auto/N takes the number that the host's "
        "name ends in, as in a StatefulSet.",
    ),
    option(
        "--share-group",
        metavar="ID",
        help="Share the partitions out with the other agents of this consumer group; needs Read on that group.",
    ),
    option("--share-instance-id", metavar="ID", help="This agent's group.instance.id in the --share-group."),
    broker_log_options,
)

_KEEPING: tuple[Decorator, ...] = (
    option(
        "--state-dir",
        type=click.Path(file_okay=False),
        metavar="DIR",
        help="Where the agent keeps files of its own.",
    ),
    option(
        "--snapshots",
        type=Parsed("DIR|kafka:TOPIC", "values:parse_place"),
        metavar="DIR|kafka:TOPIC",
        help="Where the state is kept, so that the next start reads only what came since: a directory or a topic.",
    ),
    option(
        "--snapshot-interval", type=Span("1s"), default="60s", show_default=True, help="How often the state is kept."
    ),
    option("--history-topic", type=TOPIC, help="A topic of the cluster that every event is written to."),
    option(
        "--history-topic-create/--no-history-topic-create",
        default=True,
        show_default=True,
        help="Make that topic where it is missing.",
    ),
    option("--history-parquet", metavar="URL", help="Where events are written to as Parquet: a directory or a URL."),
    option(
        "--history-roll",
        type=Span("1s"),
        default="5m",
        show_default=True,
        help="How long one file is written to.",
    ),
    option(
        "--history-samples",
        type=Span("10s"),
        help="How often the state, members and lag of each group are written with the events, as group_sample; at "
        "least 10s. Without it, never.",
    ),
    option(
        "--spool-size",
        type=Parsed("SIZE", "values:parse_size"),
        default="1GiB",
        show_default=True,
        help="How many bytes of events wait in the --state-dir at most while they cannot be written.",
    ),
)

_ASKING: tuple[Decorator, ...] = (
    option(
        "--admin/--no-admin",
        default=True,
        show_default=True,
        help="Observe through the Admin API: times join phases, compares the mirror with the brokers.",
    ),
    option(
        "--admin-rate",
        type=click.FloatRange(0.1, 1000),
        default=20,
        show_default=True,
        metavar="GROUPS",
        help="How many groups a second the brokers are asked to describe, at most.",
    ),
    option(
        "--lag/--no-lag",
        default=True,
        show_default=True,
        help="Ask for the ends of the groups' partitions, and tell their lag; needs Describe on their topics.",
    ),
    option(
        "--lag-interval", type=Span("1s"), default="30s", show_default=True, help="How often the ends are asked for."
    ),
    analyzer_options,
)

_SHOWING: tuple[Decorator, ...] = (
    *(
        option(
            f"--{verb}-{what}",
            f"{verb}_{what}s",
            type=GROUP_PATTERN if what == "group" else TOPIC_PATTERN,
            multiple=True,
            help=f"{said.format(what)} {_PATTERN_HELP}",
        )
        for what in ("group", "topic")
        for verb, said in (("allow", "Show and export only these {}s:"), ("deny", "Not these, whatever is allowed:"))
    ),
    option(
        "--granularity",
        type=click.Choice(["group", "topic", "partition"]),
        default="topic",
        show_default=True,
        help="How fine the metrics of a group are.",
    ),
    option(
        "--max-series",
        type=click.IntRange(1),
        default=500_000,
        show_default=True,
        metavar="N",
        help="How many time series there are at most; groups that find no room are left out, and counted.",
    ),
    option(
        "--expire-after",
        type=Span("1m", never=True),
        default="7d",
        show_default=True,
        help="When the series of a group go that has no members and does not commit; or never.",
    ),
    option(
        "--compat-metrics",
        type=click.Choice(["burrow", "kafka_exporter", "kafka-lag-exporter", "kminion"]),
        multiple=True,
        help="Also export what dashboards and alerts for this exporter use, by its names. Repeatable; blanks part "
        "those in the variable.",
    ),
)

_SERVING: tuple[Decorator, ...] = (
    option(
        "--keep-trying/--no-keep-trying",
        default=False,
        show_default=True,
        help="Go on trying where no broker is reached, or a right is missing, and do not end; /readyz says why. "
        "For sidecars, whose end would hold up their pod. With several clusters it is always so.",
    ),
    option(
        "--listen",
        type=Parsed("HOST:PORT", "values:parse_address"),
        default="127.0.0.1:9308",
        show_default=True,
        metavar="HOST:PORT",
        help="Where to serve HTTP.",
    ),
    option(
        "--web-config",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="TLS and users of the web server, in the format of Prometheus' exporters.",
    ),
    option(
        "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to log."
    ),
    option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        show_default=True,
        help="How much to log.",
    ),
)


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Every option of `kshadow run`, in the order of its help."""
    for decorate in reversed((*_READING, *_KEEPING, *_ASKING, *_SHOWING, *_SERVING)):
        command = decorate(command)
    return command


def _declare(**parameters: Any) -> None:
    """Only carries the options."""


declared: click.Command = click.command("run")(run_options(_declare))
"""The options of `kshadow run` without what it does: for whoever asks what can be set."""


def long_name(parameter: click.Parameter) -> str:
    """An option's name as settings have it: that of its long flag, without dashes."""
    return next(flag for flag in parameter.opts if flag.startswith("--"))[2:]


OPTIONS: dict[str, click.Option] = {
    long_name(parameter): parameter for parameter in declared.params if isinstance(parameter, click.Option)
}
"""Each option by its name."""
