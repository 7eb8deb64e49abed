"""`kshadow explain`: the story of one group in sentences."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from agent.cli.options import (
    analyzer_options,
    broker_log_options,
    option,
    output_option,
    range_options,
    resolve_range,
    source_options,
)
from agent.cli.output import bold, echo, print_value, printable, warn
from agent.common.timespec import TimeSpec

if TYPE_CHECKING:
    from agent.kafka.source.brokerlog import BrokerLogs
    from agent.presentation.narrative.explain import Story

LISTED = {
    "section": "Find out why, and what to change",
    "place": 1,
    "number": 10,
    "help": "Explain one group: what happened, why, and what to change.",
}

MAX_WIDTH = 100
"""Columns of a text: longer lines are hard to read."""


@click.command()
@click.argument("group")
@source_options
@range_options
@analyzer_options
@broker_log_options
@option(
    "--whatif/--no-whatif",
    "is_with_whatif",
    default=True,
    show_default=True,
    help="Also replay the history under other settings, as kshadow whatif does, for at most 10 s.",
)
@output_option()
@click.pass_context
def explain(
    ctx: click.Context,
    /,
    group: str,
    since: TimeSpec | None,
    until: TimeSpec | None,
    broker_logs: tuple[str, ...],
    broker_log_timezone: str,
    is_with_whatif: bool,
    output: str,
    **_: Any,
) -> None:
    """Explain one group: what happened, why, and what to change.

    The answer first, in one to three sentences; then what happened in order, the evidence and how sure it is, what
    it cost, and what could not be seen. Times are UTC. Partition time is time summed over partitions: two that stood
    still for three seconds make six. With --broker-log the brokers' own reasons stand in place of what is inferred.

    \b
    Examples:
      kshadow explain payments --from /var/lib/kafka/data
      kshadow explain payments --bootstrap-server localhost:9092 --since 6h
      kshadow explain payments --from /var/lib/kafka/data --broker-log /opt/kafka/logs/server.log
    """
    from agent.cli.answers import no_such_group
    from agent.cli.data_source import open_source
    from agent.cli.whatif_gains import gains_of_agent, gains_within_budget, whatif_command
    from agent.presentation.narrative.events import events_within
    from agent.presentation.narrative.explain import StoryRequest
    from agent.presentation.narrative.explain import explain as tell
    from agent.simulation.whatif.recorder import GroupRecorder

    logs = open_broker_logs(ctx, broker_logs, broker_log_timezone)
    recorder = GroupRecorder(group) if is_with_whatif else None
    with open_source(ctx, group, history=True, recorder=recorder, witness=logs) as answers:
        if logs is not None:
            logs.report(warn)
        since_ms, until_ms = resolve_range(since, until, answers.now_ms)
        past = answers.timeline(group)
        if past is None:
            no_such_group(ctx, answers, group)
        complete = past.complete_since_ms
        asked = StoryRequest(
            group,
            answers.now_ms,
            since_ms,
            until_ms,
            is_live=answers.capabilities.live,
            complete_since_ms=None
            if complete is None or (since_ms is not None and since_ms >= complete)
            else complete,
            of_agent=ctx.params["agent"] is not None,
        )
        # Without a range: whatever was open since what is told of begins.
        found = answers.findings(since_ms or 0, until_ms, group)
        form = answers.describe(group)
        gained = None
        if recorder is not None:
            whatif = whatif_command(group, ctx.params, since_ms, until_ms)
            if not _has_rebalanced(events_within(past.events, since_ms, until_ms)):
                pass
            elif not asked.of_agent:
                gained = gains_within_budget(recorder, since_ms, until_ms, answers.now_ms, command=whatif)
            elif past.events[-1]["group_type"] == "classic":
                gained = gains_of_agent(whatif)
        story = tell(asked, past.events, found, form, gains=gained)
        if output == "table":
            _print(story)
        else:
            print_value(story.to_json(), output)
        if answers.report(warn):
            ctx.exit(1)


def _has_rebalanced(events: list[dict[str, Any]]) -> bool:
    """Whether there is anything to save: the first rebalance of a group is its beginning."""
    return [event["type"] for event in events].count("rebalance") > 1


def open_broker_logs(ctx: click.Context, paths: tuple[str, ...], zone: str) -> BrokerLogs | None:
    """What the brokers' logs testify, where some are named; a usage error where an agent is asked."""
    if not paths:
        return None
    if ctx.params["agent"] is not None:
        if ctx.get_parameter_source("broker_logs") is not ParameterSource.COMMANDLINE:
            return None
        raise click.UsageError("--broker-log goes with --from and --bootstrap-server; an agent is run with its own")
    from agent.cli.data_source import source_errors_reported
    from agent.kafka.source.brokerlog import BrokerLogs, time_zone

    with source_errors_reported():
        return BrokerLogs(paths, time_zone(zone))


def _print(story: Story) -> None:
    width = min(shutil.get_terminal_size().columns, MAX_WIDTH) if sys.stdout.isatty() else None
    for title, texts in story.sections():
        if title:
            echo("\n" + bold(title))
        for text in texts:
            first, rest = ("", "") if not title else ("  - ", "    ") if len(texts) > 1 else ("  ", "  ")
            for at, line in enumerate(_lines(text, None if width is None else width - len(rest))):
                echo((rest if at else first) + line)


def _lines(text: str, width: int | None) -> list[str]:
    from agent.cli.tables import fold_words

    shown = printable(text)
    return [shown] if width is None else fold_words(shown, width)
