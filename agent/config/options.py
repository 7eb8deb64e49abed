"""What an option is: the types of options' values, and `OptionSpec`, from which all else about one is derived.

Here stand the options that several commands share; those of `kshadow run` alone are rows of `agent.config.settings`.
Every command imports this module: what a type needs to parse a value is imported when one comes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from agent.common.timespec import parse_duration, parse_time

if TYPE_CHECKING:
    from agent.config.command_config import CommandConfig

_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))
_UNITS_BYTES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


class Parsed(click.ParamType[Any]):
    """What a function makes of a text; it raises `ValueError` that says what was expected and what came."""

    def __init__(self, name: str, parse: Callable[[str], Any], *, keeps_text: bool = False) -> None:
        """`name` stands for the value in the help. With `keeps_text` the text itself is the value, once checked."""
        self.name = name
        self._parse, self._keeps_text = parse, keeps_text

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a text; what is no text was parsed before."""
        if not isinstance(value, str):
            return value
        try:
            parsed = self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return value if self._keeps_text else parsed

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """The name, in the letters that it has."""
        return self.name


class Size(Parsed):
    """Bytes, shown in the largest unit that needs no fraction."""

    def show(self, value: int) -> str:
        """`1GiB` for 1073741824."""
        return _in_units(value, _UNITS_BYTES, "")


def _check_text(text: str) -> None:
    if not text:
        # A variable that is not set, rather than somebody who means a group without a name.
        raise ValueError("expected a text that is not empty")


TEXT = Parsed("TEXT", _check_text, keeps_text=True)
"""Any text but an empty one."""
TIME = Parsed("TIME", parse_time)
"""A time: so long before now, ISO 8601, or epoch milliseconds; "now" comes later."""
DURATION = Parsed("DURATION", parse_duration)
"""A duration in milliseconds, as people write it."""


MAX_DURATION = "36500d"
"""Python waits for three hundred years at most, and the thread that is to wait longer ends."""


class Place(click.Path):
    """Where something is read or written: a path, or a URL. Python takes an empty one for the directory that it runs
    in, which nobody named: a variable that is not set."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As it was typed."""
        if value == "":
            dash = " or -" if self.allow_dash else ""
            self.fail(f"expected a file, a directory{dash}, got an empty text", param, ctx)
        return super().convert(value, param, ctx)

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        """Several in a variable stand between colons, which a URL has, too."""
        return _PLACES.findall(rv)


_PLACES = re.compile(
    r"[A-Za-z][\w+.-]*://(?:[^/@]*@)?[^/:?]*(?::\d+)?[^:?]*(?:\?.*)?"  # a URL; its query goes on to the end
    r"|iceberg:[^:]*|[^:]+"
)

PLACE = Place(readable=False)


def _check_brokers(text: str) -> None:
    from agent.config.values import check_brokers

    check_brokers(text)


BROKERS = Parsed("HOST:PORT[,…]", _check_brokers, keeps_text=True)
"""Bootstrap servers, as they are typed."""


def _check_agent_url(text: str) -> None:
    from agent.config.values import parse_agent_url

    parse_agent_url(text)


AGENT = Parsed("URL", _check_agent_url, keeps_text=True)
"""An agent's address, as it is typed."""


class MinDuration(Parsed):
    """A duration of at least so long and at most `MAX_DURATION`, in milliseconds; None for `never`, where that is
    allowed."""

    def __init__(self, least: str, *, never: bool = False) -> None:
        super().__init__("DURATION", self._parse_bounded)
        self._least = least
        self.least_ms, self.never = parse_duration(least), never

    def _parse_bounded(self, text: str) -> int | None:
        if self.never and text == "never":
            return None
        duration_ms = parse_duration(text)
        if duration_ms < self.least_ms:
            raise ValueError(f"expected at least {self._least}, got {text!r}")
        if duration_ms > parse_duration(MAX_DURATION):
            raise ValueError(f"expected at most {MAX_DURATION}, got {text[:100]!r}")
        return duration_ms

    def show(self, value: int | None) -> str | None:
        """`5m` for 300000."""
        if value is None:
            return "never" if self.never else None
        return _in_units(value, _UNITS_MS, "ms")


class FloatRange(click.FloatRange):
    """Click's, without NaN: no comparison with a bound refuses that."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; `nan` is none."""
        number = super().convert(value, param, ctx)
        if isnan(number):
            self.fail(f"expected a number, got {value!r}", param, ctx)
        return number


class NameValue(click.ParamType[tuple[str, str]]):
    """A name and its value, split at the first `=`; whether there is such a name is seen where it is used."""

    def __init__(self, what: str, metavar: str) -> None:
        """`metavar` is what it looks like, in the help and in errors; the name has a dot where it does so there."""
        self.what, self.name = what, metavar

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The two; from the settings' file they come as such."""
        if isinstance(value, tuple) and value[0]:
            return value
        name, equals, text = str(value).partition("=")
        if not equals or not name or ("." in self.name and "." not in name):
            # Of a property it may be half of a password, parted at a blank.
            came = repr(value) if "." in self.name else "something else (not shown: it may be a secret)"
            self.fail(f"expected a {self.what} as {self.name}, got {came}", param, ctx)
        return name, text

    def show(self, values: Sequence[tuple[str, str]]) -> dict[str, str]:
        """All of them by name."""
        return dict(values)


class BrokerConfig(NameValue):
    """A setting of brokers of which the inference makes use, by Kafka's name for it."""

    def __init__(self) -> None:
        super().__init__("broker's setting", "BROKER.SETTING=MILLISECONDS")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The two, once checked."""
        from agent.config.broker_settings import BROKER_SETTINGS, milliseconds_of

        name, text = super().convert(value, param, ctx)
        if name not in BROKER_SETTINGS:
            self.fail(f"expected one of {', '.join(BROKER_SETTINGS)}, got {name!r}", param, ctx)
        if milliseconds_of(text) is None:
            self.fail(f"{name}: expected milliseconds, more than 0, got {text!r}", param, ctx)
        return name, text


class LibrdkafkaProperty(NameValue):
    """A librdkafka property. A value that is exactly `${NAME}` stands in the environment, as it may in the file."""

    def __init__(self) -> None:
        super().__init__("property", "NAME=VALUE")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The two; what comes from the file as such was looked up there."""
        name, text = super().convert(value, param, ctx)
        if isinstance(value, tuple):
            return value
        from agent.config.secrets import is_utf8, resolve_variable

        if not is_utf8(name + text):
            self.fail("expected a property in UTF-8, got something else (not shown: it may be a secret)", param, ctx)
        try:
            found = resolve_variable(text, os.environ)
        except ValueError as error:
            self.fail(f"{name}: {error}", param, ctx)
        return name, text if found is None else found

    def show(self, values: Sequence[tuple[str, str]]) -> dict[str, str]:
        """All of them by name, without secrets."""
        from agent.config.secrets import redact_properties

        return redact_properties(values)


class CommandConfigFile(Parsed):
    """A file of a Java client's properties, as `agent.config.command_config.CommandConfig`."""

    def __init__(self) -> None:
        super().__init__("FILE", self._read)

    @staticmethod
    def _read(path: str) -> CommandConfig:
        from agent.config.command_config import read_command_config

        try:
            return read_command_config(path)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Files."""
        return click.Path().shell_complete(ctx, param, incomplete)


class OptionSpec(NamedTuple):
    """All that is known of an option.

    Click's options, keys of files, `config show`, the table of the docs, the chart's schema and what a reload may
    change are made of it. Its environment variable is `KSHADOW_` and its name.

    `flags`: as click takes them, such as `-X`, `--property` or `--lag/--no-lag`. `parameter`: click's name of it,
    where that is not the flag's. `type`: a click type; None is a text that is not empty, or a switch where there are
    two flags. `default`: as it would be typed. `goes_with`: it says nothing without one of these options. `live`: a
    change takes effect while the agent runs. `secret`: its value may hold one, and is in no `repr`. `chart`: who sets
    it under Helm: the user under `config`, the chart itself (`chart`), or the chart unless there are several clusters
    (`chart, or a cluster`).
    """

    flags: tuple[str, ...]
    help: str
    type: Any = None
    default: Any = None
    parameter: str | None = None
    metavar: str | None = None
    multiple: bool = False
    goes_with: tuple[str, ...] = ()
    live: bool = False
    secret: bool = False
    chart: Literal["config", "chart", "chart, or a cluster"] = "config"

    @property
    def name(self) -> str:
        """Its long flag without dashes: the key in a file."""
        return next(flag for flag in self.flags if flag.startswith("--")).partition("/")[0][2:]

    @property
    def typed_default(self) -> Any:
        """The default as the option's type makes it."""
        if self.default is None:
            return () if self.multiple else None
        return self.default if self.type is None else self.type.convert(self.default, None, None)

    def show(self, value: Any) -> Any:
        """A value as JSON has it and a person would write it, without secrets."""
        if hasattr(self.type, "show"):
            return self.type.show(value)
        match value:
            case tuple():
                return list(value)
            case str():
                from agent.config.secrets import redact

                return redact(value)
            case None | bool() | int() | float():
                return value
            case _:
                return str(value)

    def show_text(self, value: Any) -> str:
        """The same as one text; empty for nothing."""
        match self.show(value):
            case None:
                return ""
            case dict() as named:
                return ", ".join(f"{name}={text}" for name, text in named.items())
            case list() as several:
                return ", ".join(map(str, several))
            case bool() as switch:
                return "true" if switch else "false"
            case float() as number:
                return f"{number:g}"
            case shown:
                return str(shown)


def _in_units(value: int, units: tuple[tuple[str, int], ...], smallest: str) -> str:
    for unit, size in units:
        if value and value % size == 0:
            return f"{value // size}{unit}"
    return f"{value}{smallest}"


BOOTSTRAP_SERVER = OptionSpec(
    ("--bootstrap-server",),
    type=BROKERS,
    help="Bootstrap servers of the cluster whose topic is read.",
    chart="chart, or a cluster",
)
COMMAND_CONFIG = OptionSpec(
    ("--command-config",),
    type=CommandConfigFile(),
    help="The properties file of Kafka's own tools, with security.protocol, sasl.jaas.config "
    "and so on; -X overrides it.",
    secret=True,
)
PROPERTY = OptionSpec(
    ("-X", "--property"),
    parameter="properties",
    type=LibrdkafkaProperty(),
    multiple=True,
    help="A librdkafka property, such as security.protocol=SASL_SSL; a value that is exactly "
    "${NAME} is read from the environment. Repeatable; separated in the variable by "
    "blanks.",
    secret=True,
    chart="chart, or a cluster",
)
GROUP_PARTITIONER = OptionSpec(
    ("--group-partitioner",),
    type=click.Choice(["auto", "kafka", "redpanda"]),
    default="auto",
    help="The hash that gives a group its partition: Kafka's, Redpanda's, or auto for the one "
    "that the cluster's groups show.",
)
BROKER_LOG = OptionSpec(
    ("--broker-log",),
    parameter="broker_logs",
    type=PLACE,
    metavar="PATH",
    multiple=True,
    help="A broker's server.log or its directory: the coordinator's lines are evidence with "
    "confidence 1. Repeatable, one per broker; separated in the variable by colons.",
)
BROKER_LOG_TIMEZONE = OptionSpec(
    ("--broker-log-timezone",),
    metavar="ZONE",
    default="UTC",
    help="The time zone of broker logs whose times name none: UTC, local, +02:00, or Europe/Berlin.",
    goes_with=("broker-log",),
)
BROKER_CONFIG = OptionSpec(
    ("--broker-config",),
    type=BrokerConfig(),
    multiple=True,
    help="A session timeout that the brokers set, which the topic does not have, such as "
    "group.consumer.session.timeout.ms=10000 [as the brokers say, else 45000]. Repeatable; separated in the "
    "variable by blanks.",
)
WORKERS = OptionSpec(
    ("--workers",),
    type=click.IntRange(1),
    metavar="N",
    help="Processes that share the partitions of the files [the processors, where the files are large enough].",
)
ANALYZERS = OptionSpec(
    ("--analyzers",),
    parameter="analyzer_names",
    default="all",
    metavar="NAME,…",
    help="Which analyzers to run: all, none, or their names.",
)
TUNE = OptionSpec(
    ("--tune",),
    parameter="tuned",
    type=NameValue("setting", "ANALYZER.SETTING=VALUE"),
    multiple=True,
    help="A setting of an analyzer, such as session_timeout.window_s=3600; kshadow analyzers "
    "lists them. Repeatable; separated in the variable by blanks.",
)
