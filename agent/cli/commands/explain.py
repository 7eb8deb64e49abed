"""`kshadow explain`: the story of one group in sentences."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from agent.cli.options import broker_log_options, history_options, option, output_option, typed
from agent.cli.output import MIN_TEXT_WIDTH, bold, echo, echo_text, print_value, warn
from agent.cli.query import Query, pass_query

if TYPE_CHECKING:
    from agent.cli.answers import Answers, Unread
    from agent.kafka.source.brokerlog import BrokerLogs
    from agent.presentation.narrative.explain import Story


@click.command()
@click.argument("group")
@history_options
@broker_log_options
@option(
    "--whatif/--no-whatif",
    "is_with_whatif",
    default=True,
    help="Also replay the history under other settings, as kshadow whatif does, for at most 10 s.",
)
@option("--full", "is_full", is_flag=True, help="Show everything, not only what fits on one screen.")
@output_option()
@pass_query
def explain(
    query: Query,
    /,
    group: str,
    broker_logs: tuple[str, ...],
    broker_log_timezone: str,
    is_with_whatif: bool,
    is_full: bool,
    **_: Any,
) -> None:
    """Explain one group: what happened, why, how sure that is, and what to do.

    The answer comes first, in at most 25 words; all of it fits on a screen of 24 lines. --full shows everything:
    each event, the evidence, the findings, what other settings would have changed, and what is not known. Times are
    UTC. Stopped partition time is summed over partitions: two that are stopped for 3 s make 6 s. With --broker-log
    the brokers' own reasons replace what is inferred.

    \b
    Examples:
      kshadow explain payments --from /var/lib/kafka/data
      kshadow explain payments --bootstrap-server localhost:9092 --since 6h
      kshadow explain payments --from /var/lib/kafka/data --broker-log /opt/kafka/logs/server.log
    """
    from agent.cli.answers import no_such_group
    from agent.cli.whatif_gains import gains_within_budget
    from agent.presentation.narrative.events import events_within
    from agent.presentation.narrative.explain import StoryRequest
    from agent.presentation.narrative.explain import explain as tell
    from agent.simulation.whatif.command_line import whatif_command
    from agent.simulation.whatif.recorder import GroupRecorder

    logs = open_broker_logs(query, broker_logs, broker_log_timezone)
    recorder = GroupRecorder(group) if is_with_whatif else None
    with query.open(group, history=True, recorder=recorder, witness=logs, tables=True) as answers:
        if logs is not None:
            logs.report(warn)
        since_ms, until_ms = query.range_ms(answers)
        past = answers.timeline(group)
        if past is None:
            no_such_group(answers, group)
        form = answers.describe(group)
        # Who does not read does not know that nothing happened since.
        unread = _unread(answers, past.events, form)
        known_ms = answers.now_ms if unread is None else max(unread.known_ms or 0, _newest_ms(past.events, form))
        asked = StoryRequest(
            group,
            known_ms,
            since_ms,
            until_ms,
            is_live=answers.capabilities.live,
            complete_since_ms=past.complete_since_ms,
            of_agent=query.source == "agent",
            is_state_known=answers.capabilities.has_state,
            unread_reason="" if unread is None else unread.reason,
        )
        gained = None
        if (
            is_with_whatif
            and _has_rebalanced(events_within(past.events, since_ms, until_ms))
            and (recording := answers.recording(group)) is not None
        ):
            whatif = whatif_command(group, {query.source: query.ctx.params[query.source]}, since_ms, until_ms)
            gained = gains_within_budget(recording, since_ms, until_ms, known_ms, command=whatif)
        # Without a range: whatever was open since what is told of begins.
        found = answers.findings(since_ms or 0, until_ms, group)
        story = tell(asked, past.events, found, form, gains=gained)
        if query.is_table:
            (_print if is_full else _print_brief)(story)
        else:
            print_value(story.to_json(), query.output)


def _unread(answers: Answers, events: list[dict[str, Any]], form: dict[str, Any] | None) -> Unread | None:
    """Where the group's partition was not read on."""
    if form is not None:
        return answers.unread(form.get("cluster"), form["coordinator_partition"])
    newest = events[-1] if events else {}
    return answers.unread(newest.get("cluster"), newest.get("partition"))


def _newest_ms(events: list[dict[str, Any]], form: dict[str, Any] | None) -> int:
    """Up to when at least all is known of a group; epoch milliseconds, 0 where nothing tells."""
    told = [it["at_ms"] for it in events[-1:]]
    if form is not None:
        told += [form["state_since_ms"], form["last_commit_ms"] or 0]
    return max(told, default=0)


def _has_rebalanced(events: list[dict[str, Any]]) -> bool:
    """Whether there is anything to save: the first rebalance of a group is its beginning."""
    return [event["type"] for event in events].count("rebalance") > 1


def open_broker_logs(query: Query, paths: tuple[str, ...], zone: str) -> BrokerLogs | None:
    """What the brokers' logs testify, where some are named; a usage error where an agent is asked."""
    if not paths:
        return None
    if query.source == "agent":
        if not typed(query.ctx, "broker_logs"):
            return None
        raise click.UsageError("--broker-log goes with --from and --bootstrap-server; an agent is run with its own")
    from agent.cli.data_source import source_errors_reported
    from agent.kafka.source.brokerlog import BrokerLogs
    from agent.kafka.source.time_zones import time_zone

    with source_errors_reported():
        return BrokerLogs(paths, time_zone(zone))


def _print_brief(story: Story) -> None:
    """One screen, 80 columns wide or less, also where it is not a terminal: what is copied stays readable."""
    from agent.cli.tables import fold_words
    from agent.common.sanitize import printable
    from agent.presentation.narrative.brief import LABEL_WIDTH, SCREEN_WIDTH, fit_screen

    width = SCREEN_WIDTH
    if sys.stdout.isatty():
        width = min(shutil.get_terminal_size().columns, SCREEN_WIDTH)

    def fold(text: str, cells: int) -> list[str]:
        return fold_words(printable(text), max(cells, MIN_TEXT_WIDTH))

    footer = "--full shows every event, the evidence, the findings and what is not known."
    *lines, _ = fit_screen(story.summary, story.brief, footer, fold, width)
    titles = {it.title for it in story.brief}
    for line in lines:
        label = line[:LABEL_WIDTH]
        echo((bold(label) if label.rstrip() in titles else label) + line[LABEL_WIDTH:])
    echo_text(footer, widest=width)


def _print(story: Story) -> None:
    for title, texts in story.sections():
        if title:
            echo("\n" + bold(title))
        first, rest = ("", "") if not title else ("  - ", "    ") if len(texts) > 1 else ("  ", "  ")
        for text in texts:
            echo_text(text, first, rest)
