"""The options of commands that can go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from agent.cli.options import option


def follow_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--follow` and `--interval`."""
    interval = option(
        "--interval",
        type=click.FloatRange(0.1, 3600),
        default=2,
        show_default=True,
        metavar="SECONDS",
        help="How often --follow asks.",
    )
    follow = option(
        "--follow",
        "follows",
        is_flag=True,
        help="Go on, and print what is new as it comes: a line each, or -o ndjson. With --agent, or with "
        "--bootstrap-server, which then runs an agent in this process. Ctrl-C ends it.",
    )
    return follow(interval(command))
