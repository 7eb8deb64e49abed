"""Types for times and durations; `--since` and `--until`, and what they mean where "now" is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from agent.cli.options import option
from agent.moments import Moment, check, parse_duration, parse_moment


class Time(click.ParamType[Moment]):
    """A time: so long before now, ISO 8601, or epoch milliseconds."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Moment:
        """Parse it; "now" comes later."""
        if isinstance(value, Moment):
            return value
        try:
            return parse_moment(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Duration(click.ParamType[int]):
    """A duration in milliseconds, as people write it. `example` is what a message expects in place of all forms."""

    name = "DURATION"

    def __init__(self, example: str | None = None) -> None:
        self._example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse it."""
        if isinstance(value, int):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as error:
            expected = self._example
            self.fail(str(error) if expected is None else f"{expected} expected, {value!r} came", param, ctx)


def range_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--since` and `--until`, both included."""
    until = option("--until", type=Time(), help="Only up to this time, written as for --since.")
    since = option(
        "--since",
        type=Time(),
        help="Only from this time on: 15m, 2h, 3d before now (with --from: before the newest record), "
        "2026-11-21T10:02 (UTC unless told), or epoch milliseconds.",
    )
    return since(until(command))


def resolved(since: Moment | None, until: Moment | None, now_ms: int) -> tuple[int | None, int | None]:
    """Both as epoch milliseconds; a usage error for a range that ends before it begins."""
    since_ms = None if since is None else since.before(now_ms)
    until_ms = None if until is None else until.before(now_ms)
    try:
        check(since_ms, until_ms)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return since_ms, until_ms
