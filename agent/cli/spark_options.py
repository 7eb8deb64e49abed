"""Options that the commands of `kshadow spark` share, and the types of theirs."""

from __future__ import annotations

import re
from pathlib import Path

import click

from agent.cli.options import Decorator, combined, option
from agent.common.timespec import parse_time
from agent.common.units import DAY_MS
from agent.config.options import NameValue, Parsed, Place

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_TABLE = re.compile(r"\w+(\.\w+){2,}", re.ASCII)
_MEMORY = re.compile(r"[1-9][0-9]*[kmgtKMGT]")


def parse_day(text: str) -> str:
    """A day, YYYY-MM-DD; of a time, written as everywhere, its day (UTC)."""
    from datetime import UTC, datetime

    from agent.common.clock import now_ms

    try:
        return datetime.fromtimestamp(parse_time(text).before(now_ms()) / 1000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"expected a day (2026-11-21), or a time or a duration before now, got {text!r}") from None


def parse_range(text: str) -> tuple[int, int]:
    """`FROM..TO`, times or days, as epoch milliseconds. A day as TO is part of it."""
    begin, dots, end = text.partition("..")
    since, until = (parse_time(begin), parse_time(end)) if dots else (None, None)
    if since is None or until is None or since.at_ms is None or until.at_ms is None:
        raise ValueError(f"expected two times or days (2026-11-01..2026-11-07; UTC unless told), got {text!r}")
    until_ms = until.at_ms + (DAY_MS if _DAY.fullmatch(end.strip()) else 0)
    if since.at_ms >= until_ms:
        raise ValueError(f"{text}: the range ends before it begins")
    return since.at_ms, until_ms


def parse_time_zone(text: str) -> str:
    """A zone by its IANA name."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(text).key
    except (KeyError, ValueError, OSError):
        raise ValueError(f"expected a time zone (UTC, Europe/Berlin), got {text!r}") from None


def parse_table(text: str) -> str:
    """How the names of Iceberg tables begin, in a catalog of Spark's."""
    if not _TABLE.fullmatch(text):
        raise ValueError(
            f"expected CATALOG.DB.PREFIX, of letters, digits and underscores (lake.kafka.kshadow), got {text!r}"
        )
    return text


def parse_memory(text: str) -> str:
    """An amount of memory as Java has them."""
    if not _MEMORY.fullmatch(text):
        raise ValueError(f"expected a size (512m, 2g), got {text!r}")
    return text


DAY, RANGE = Parsed("DAY", parse_day), Parsed("FROM..TO", parse_range)
TIME_ZONE, MEMORY = Parsed("ZONE", parse_time_zone), Parsed("SIZE", parse_memory)


spark_options: Decorator = combined(
    option("--master", metavar="URL", default="local[*]", help="Spark's master."),
    option(
        "--deploy-mode",
        type=click.Choice(("client", "cluster")),
        default="client",
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
        type=Place(path_type=Path, file_okay=False),
        help="Where downloads are kept [~/.cache/kshadow/spark/ivy].",
    ),
    option(
        "--conf",
        type=NameValue("setting of Spark", "KEY=VALUE"),
        multiple=True,
        help="A setting of Spark. Repeatable; separated by blanks in the variable.",
    ),
    option("--driver-memory", type=MEMORY, default="2g", help="The driver's heap."),
    option(
        "--spark-home",
        type=Place(path_type=Path, file_okay=False),
        envvar=["KSHADOW_SPARK_HOME", "SPARK_HOME"],
        help="An unpacked Spark release, not the installed pyspark.",
    ),
    option("--verbose", is_flag=True, help="Show all that Spark says."),
    option("--dry-run", is_flag=True, help="Check, then print the command for a shell and do not run it."),
    option(
        "--check/--no-check",
        "checks",
        default=True,
        envvar="KSHADOW_CHECK",
        help="Whether to reach the brokers first; only the cluster may be able to.",
    ),
)
"""How Spark is to run it."""
