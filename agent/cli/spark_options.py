"""Options that the commands of `kshadow spark` share, and the types of theirs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from agent.cli.options import Decorator, option
from agent.common.timespec import parse_time
from agent.config.options import NameValue

if TYPE_CHECKING:
    from agent.tools.spark_submit.command import SubmitSettings

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_DAY_MS = 86_400_000
_MEMORY = re.compile(r"[1-9][0-9]*[kmgtKMGT]")


class Day(click.ParamType[str]):
    """A day, YYYY-MM-DD; of a time, written as everywhere, its day (UTC)."""

    name = "DAY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Parse it; "now" is when it is read."""
        from datetime import UTC, datetime

        from agent.common.clock import now_ms

        try:
            at_ms = parse_time(str(value)).before(now_ms())
            return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()
        except (ValueError, OverflowError, OSError):
            self.fail(f"a day (2026-11-21), or a time or a duration before now, expected; {value!r} came", param, ctx)


class Range(click.ParamType[tuple[int, int]]):
    """`FROM..TO`, times or days, as epoch milliseconds. A day as TO is part of it."""

    name = "FROM..TO"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Parse it."""
        if isinstance(value, tuple):
            return value
        begin, dots, end = str(value).partition("..")
        expected = "two times or days (2026-11-01..2026-11-07; UTC unless told) expected"
        if not dots:
            self.fail(f"{expected}, {value!r} came", param, ctx)
        try:
            since, until = parse_time(begin), parse_time(end)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if since.at_ms is None or until.at_ms is None:
            self.fail(f"{expected}, {value!r} came", param, ctx)
        until_ms = until.at_ms + (_DAY_MS if _DAY.fullmatch(end.strip()) else 0)
        if since.at_ms >= until_ms:
            self.fail(f"{value}: the range ends before it begins", param, ctx)
        return since.at_ms, until_ms


class TimeZone(click.ParamType[str]):
    """A zone by its IANA name."""

    name = "ZONE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check that there is one."""
        from zoneinfo import ZoneInfo

        try:
            return ZoneInfo(str(value)).key
        except (KeyError, ValueError, OSError):
            self.fail(f"a time zone (UTC, Europe/Berlin) expected, {value!r} came", param, ctx)


class Memory(click.ParamType[str]):
    """An amount of memory as Java has them."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check it."""
        if not _MEMORY.fullmatch(str(value)):
            self.fail(f"a size (512m, 2g) expected, {value!r} came", param, ctx)
        return str(value)


class SubmitOptions(NamedTuple):
    """What the common options say."""

    master: str
    deploy_mode: str
    packages: str | None
    ivy_home: Path | None
    conf: tuple[tuple[str, str], ...]
    driver_memory: str
    spark_home: Path | None
    verbose: bool
    dry_run: bool
    checks: bool

    def placement(self, cache: Path) -> SubmitSettings:
        """Where and how it runs. Raises `SubmitError`."""
        import sys

        from agent.tools.spark_submit.command import SubmitSettings
        from agent.tools.spark_submit.ivy import settings_file

        ivy_home = (self.ivy_home or cache / "ivy").absolute()
        return SubmitSettings(
            ivy_home=ivy_home,
            ivy_settings=settings_file(ivy_home),
            python=sys.executable,
            master=self.master,
            deploy_mode=self.deploy_mode,
            packages=tuple(it.strip() for it in (self.packages or "").split(",") if it.strip()),
            conf=self.conf,
            driver_memory=self.driver_memory,
        )


def submit_options(params: Mapping[str, Any]) -> SubmitOptions:
    """The common options of a command's parameters."""
    return SubmitOptions(**{name: params[name] for name in SubmitOptions._fields})


_COMMON: tuple[Decorator, ...] = (
    option("--master", metavar="URL", default="local[*]", show_default=True, help="Spark's master."),
    option(
        "--deploy-mode",
        type=click.Choice(("client", "cluster")),
        default="client",
        show_default=True,
        help="Where the driver runs: here, or in the cluster.",
    ),
    option(
        "--packages",
        metavar="COORDINATES,…",
        help="What Spark is to download. Kafka's connector that fits this Spark comes to it where a job needs it, "
        "unless it is among them.",
    ),
    option(
        "--ivy-home",
        type=click.Path(path_type=Path, file_okay=False),
        help="Where downloads are kept [~/.cache/kshadow/spark/ivy].",
    ),
    option(
        "--conf",
        type=NameValue("setting of Spark", "KEY=VALUE"),
        multiple=True,
        help="A setting of Spark. Repeatable; blanks part those in the variable.",
    ),
    option("--driver-memory", type=Memory(), default="2g", show_default=True, help="The driver's heap."),
    option(
        "--spark-home",
        type=click.Path(path_type=Path, file_okay=False),
        envvar=["KSHADOW_SPARK_HOME", "SPARK_HOME"],
        help="An unpacked Spark release, not the installed pyspark.",
    ),
    option("--verbose", is_flag=True, help="Show all that Spark says."),
    option("--dry-run", is_flag=True, help="Check, then print the command for a shell and do not run it."),
    option(
        "--check/--no-check",
        "checks",
        default=True,
        show_default=True,
        envvar="KSHADOW_CHECK",
        help="Whether to reach the brokers first; only the cluster may be able to.",
    ),
)


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """How Spark is to run it."""
    for decorate in reversed(_COMMON):
        command = decorate(command)
    return command
