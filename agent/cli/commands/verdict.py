"""`kshadow verdict`: whether a group's newest rollout did harm, as one word and an exit code."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NoReturn

import click

from agent.cli.options import history_options, option, output_option
from agent.cli.output import EXIT_UNREACHABLE, bold, echo, echo_text, print_rows, print_value, printable, warn
from agent.cli.query import Query, pass_query
from agent.cli.tables import Column
from agent.cli.text import MAX_TEXT, iso_time
from agent.common.text import printable_truncated
from agent.common.timespec import parse_duration
from agent.config.options import Parsed

if TYPE_CHECKING:
    from agent.cli.answers import Answers
    from agent.core.queries import Rollouts
    from agent.simulation.whatif.recorder import GroupRecording

JsonObject = dict[str, Any]

NEWEST = "newest"
POLL_S = 2.0
"""How often an agent is asked again by --wait."""
MAX_EARLIER = 5
"""Rollouts before the one that is told, in the table below it."""
MAX_LABEL = 28

_COLUMNS = {
    "began": Column("BEGAN"),
    "verdict": Column("VERDICT"),
    "members": Column("REPLACED"),
    "rebalances": Column("REBALANCES"),
    "stopped": Column("STOPPED"),
    "steady": Column("STEADY AFTER", spare=1),
    "revision": Column("REVISION", spare=2),
}


def _parse_wait(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError:
        raise ValueError(f"expected a duration such as 2m or 90s, got {text!r}") from None


@click.command()
@click.argument("group")
@history_options
@option(
    "--rollout",
    "which",
    default=NEWEST,
    metavar="newest|N|REVISION",
    help="Which one: the newest, the Nth counted back from it (1 is the newest), or the newest to this revision.",
    show_default=True,
)
@option(
    "--wait",
    "wait_ms",
    type=Parsed("DURATION", _parse_wait),
    help="Wait so long for a rollout that has a verdict, with --agent: 5m, 90s.",
)
@option(
    "--whatif/--no-whatif",
    "is_with_whatif",
    default=True,
    help="Also replay it with static membership and with cooperative rebalancing, for at most 10 s.",
)
@output_option()
@pass_query
def verdict(query: Query, /, group: str, which: str, wait_ms: int | None, is_with_whatif: bool, **_: Any) -> None:
    """Judge a group's newest rollout: better, same, worse or harmful.

    A rollout is found by Kubernetes' revisions, where the agent knows the pods, or by the turnover of the group's
    members, of which it had two at least: of one, each restart looks like a rollout. The verdict is there 30 s after
    the last rebalance. The exit code is 0 for better and same, 1 for worse and harmful (and where data were damaged,
    or the agent does not read at the moment), 3 where there is no verdict: no such group, no rollout in the range,
    one that is still running, or a source that cannot be reached. --since keeps earlier rollouts out.

    \b
    Examples:
      kshadow verdict payments --agent http://localhost:9308 --since 15m --wait 5m
      kshadow verdict payments --agent http://localhost:9308 --rollout 2
      kshadow verdict payments --bootstrap-server localhost:9092 -o json
    """
    from agent.cli.agent_client import AgentClient
    from agent.presentation.narrative.events import events_within
    from agent.presentation.rollouts.measures import RolloutState
    from agent.presentation.rollouts.parameters import PARAMETERS
    from agent.simulation.whatif.recorder import GroupRecorder

    of_agent = query.source == "agent"
    if wait_ms is not None and not of_agent:
        raise click.UsageError("--wait goes with --agent: files and a topic that was read do not change")
    recorder = GroupRecorder(group) if is_with_whatif and not of_agent else None
    until_s = time.monotonic() + (wait_ms or 0) / 1000
    with query.open(group, history=True, recorder=recorder, tables=True) as answers:
        # A duration counts back from when the command began, however long it waits.
        since_ms, range_until_ms = query.range_ms(answers)
        if wait_ms is not None and isinstance(answers, AgentClient):
            answers.reach()
        while True:
            told, known_since_ms = _rollouts_in_time(answers, group, until_s)
            found = events_within(told, since_ms, range_until_ms, "began_ms")
            chosen = _chosen(found, which)
            is_settled = chosen is not None and (
                chosen["verdict"] is not None or chosen["state"] != RolloutState.RUNNING
            )
            if is_settled or time.monotonic() >= until_s:
                break
            _pause(until_s)
        if wait_ms is not None and isinstance(answers, AgentClient):
            answers.raises_when_away = False
            answers.ready()
        if chosen is None:
            answers.report(warn)
            if known_since_ms is not None and (since_ms is None or since_ms < known_since_ms + PARAMETERS.gap_ms):
                why = (
                    "the agent keeps the latest events only, and the log does not keep all"
                    if of_agent
                    else "the log does not reach back to the group's beginning"
                )
                warn(
                    f"({why}: what happened is known from {iso_time(known_since_ms)} on; a rollout is judged if it"
                    " began ten minutes after that, or later)"
                )
            _no_rollout(group, answers, found, which)
        if recorder is not None:
            chosen = {**chosen, "whatif": _whatif(answers.recording(group), chosen)}
        elif not is_with_whatif:
            chosen = {**chosen, "whatif": None}
        if query.is_table:
            _print(group, chosen, found)
        else:
            print_value(chosen, query.output)
    if chosen["verdict"] is None:
        warn(f"Error: {_no_verdict(query, chosen)}")
        raise click.exceptions.Exit(EXIT_UNREACHABLE)
    if not _is_good(chosen["verdict"]):
        raise click.exceptions.Exit(1)


def _no_verdict(query: Query, chosen: JsonObject) -> str:
    """Why there is none, and what may give one."""
    from agent.presentation.rollouts.measures import RolloutState

    if chosen["state"] != RolloutState.RUNNING:
        return "no verdict: nothing tells whether it did harm"
    if query.source == "from_path":
        return "no verdict yet where the files end"
    return "no verdict yet; --wait 5m waits for it with --agent"


def _is_good(word: str) -> bool:
    from agent.presentation.rollouts.verdicts import RolloutVerdict

    return word in {str(it) for it in RolloutVerdict if it.is_good}


def _rollouts(answers: Answers, group: str) -> Rollouts:
    """A group's rollouts; ends the command where there is no such group."""
    from agent.cli.agent_client import AgentClient
    from agent.cli.answers import no_such_group
    from agent.core.events.events import sort_events
    from agent.core.queries import Rollouts
    from agent.presentation.narrative.staleness import known_until_ms
    from agent.presentation.rollouts.rollout_list import known_since_ms, rollouts_json

    if isinstance(answers, AgentClient):
        found = answers.rollouts(group)
        if found is None:
            no_such_group(answers, group, EXIT_UNREACHABLE)
        return found
    past = answers.timeline(group)
    if past is None:
        no_such_group(answers, group, EXIT_UNREACHABLE)
    form = answers.describe(group)
    members = None if form is None else len(form["members"])
    until_ms, since_ms = known_until_ms(form, answers.now_ms), past.complete_since_ms
    events = sort_events([*past.events, *samples]) if (samples := answers.samples(group)) else past.events
    told = rollouts_json(group, events, until_ms, members, complete_since_ms=since_ms)
    return Rollouts(told, known_since_ms(past.events, since_ms))


def _rollouts_in_time(answers: Answers, group: str, until_s: float) -> Rollouts:
    """The same; one that is away, and may be back until then, is waited for."""
    from agent.cli.answers import SourceAway, exit_unreachable

    is_told = False
    while True:
        try:
            return _rollouts(answers, group)
        except SourceAway as error:
            if time.monotonic() >= until_s:
                exit_unreachable(str(error))
            if not is_told:
                warn(f"({error}; waiting for it)")
            is_told = True
            _pause(until_s)


def _pause(until_s: float) -> None:
    time.sleep(min(POLL_S, max(until_s - time.monotonic(), 0)))


def _chosen(found: list[JsonObject], which: str) -> JsonObject | None:
    newest_first = found[::-1]
    if which == NEWEST:
        return newest_first[0] if found else None
    # A revision may be all digits: short numbers count.
    if which.isascii() and which.isdecimal() and len(which) < 10 and 0 < int(which) <= len(found):
        return newest_first[int(which) - 1]
    return next((it for it in newest_first if it["revision_to"] == which), None)


def _no_rollout(group: str, answers: Answers, found: list[JsonObject], which: str) -> NoReturn:
    name = printable_truncated(repr(group), MAX_TEXT)
    if found:
        asked = printable_truncated(repr(which), MAX_TEXT)
        warn(f"Error: no rollout {asked} of {name} {answers.where}; 1 to {len(found)} are there")
    else:
        warn(f"Error: no rollout of {name} {answers.where} in that time: no verdict")
    raise click.exceptions.Exit(EXIT_UNREACHABLE)


def _whatif(recording: GroupRecording | None, chosen: JsonObject) -> JsonObject:
    from agent.cli.whatif_gains import BUDGET_S
    from agent.presentation.rollouts.rollout_list import span_ms
    from agent.simulation.whatif.rollout_costs import rollout_costs

    over_s = time.monotonic() + BUDGET_S
    return rollout_costs(recording, *span_ms(chosen), lambda: time.monotonic() >= over_s)


def _print(group: str, chosen: JsonObject, found: list[JsonObject]) -> None:
    from agent.presentation.narrative.words import about
    from agent.presentation.rollouts.sentences import lines, verdict_word, what_was_rolled_out

    what = what_was_rolled_out(chosen)
    by = "by Kubernetes' revisions" if chosen["recognised_by"] == "kubernetes" else "by the turnover of its members"
    name = printable_truncated(group, MAX_TEXT)
    what = f" ({printable(what)})" if what else ""
    echo(f"{bold(printable(verdict_word(chosen)))}: the rollout of `{name}`{what}, found {by}")
    for reason in chosen["reasons"]:
        echo_text(reason)
    echo("")
    for label, said in lines(chosen):
        echo_text(said, f"  {label:{MAX_LABEL}}  ", " " * (MAX_LABEL + 4))
    earlier = [it for it in found if it["began_ms"] < chosen["began_ms"]][-MAX_EARLIER:]
    if not earlier:
        return
    echo("\n" + bold("Rollouts before"))
    rows = [
        {
            "began": iso_time(it["began_ms"]),
            "verdict": verdict_word(it),
            "members": it["members_replaced"],
            "rebalances": it["rebalances"],
            "stopped": None if it["stopped_partition_ms"] is None else about(it["stopped_partition_ms"]),
            "steady": None if it["time_to_steady_ms"] is None else about(it["time_to_steady_ms"]),
            "revision": it["revision_to"],
        }
        for it in reversed(earlier)
    ]
    print_rows(rows, "table", _COLUMNS)
