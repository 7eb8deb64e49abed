"""`kshadow whatif`: what one group's own history would have come to under other settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import click

from agent.cli.options import (
    Decorator,
    broker_config_option,
    combined,
    option,
    output_option,
    range_options,
    source_options,
)
from agent.cli.output import bold, echo, echo_text, print_rows, print_value, warn
from agent.cli.query import Query, pass_query
from agent.cli.tables import Column
from agent.cli.text import MAX_TEXT, iso_time
from agent.common.text import printable_truncated
from agent.common.timespec import parse_duration
from agent.config.options import Parsed
from agent.simulation.whatif.changes import CHANGES, Alternative

if TYPE_CHECKING:
    from agent.simulation.groups.script import Script
    from agent.simulation.whatif.calibrated_replay import CalibratedReplay
    from agent.simulation.whatif.comparison import Comparison

_COLUMNS = {
    "setting": Column("SETTING", folds=24),
    "rebalances": Column("REBALANCES"),
    "stopped": Column("STOPPED"),
    "rebalancing": Column("REBALANCING", spare=1),
    "undetected": Column("UNDETECTED", spare=2),
    "unowned": Column("UNOWNED", spare=3),
    "detects": Column("DETECTS A DEATH IN", folds=18),
    "saved": Column("SAVES", folds=14),
}


MAX_SETTING_MS = 2**31 - 1
"""The most that such a setting may be: brokers and clients read a 32-bit number."""


def _parse_duration(text: str) -> int:
    try:
        ms = parse_duration(text)
    except ValueError:
        raise ValueError(f"expected a duration such as 30s, 5m or 500ms, got {text!r}") from None
    if ms > MAX_SETTING_MS:
        raise ValueError(f"expected at most {MAX_SETTING_MS} ms, the most that Kafka takes, got {text!r}")
    return ms


DURATION = Parsed("DURATION", _parse_duration)


def _parameter(name: str) -> str:
    return "change_" + name.replace("-", "_")


_KINDS: Mapping[str, Callable[[tuple[str, ...]], dict[str, Any]]] = {
    "flag": lambda _: {"is_flag": True},
    "duration": lambda _: {"type": DURATION, "multiple": True},
    "choice": lambda choices: {"type": click.Choice(choices), "multiple": True},
}
change_options: Decorator = combined(
    *(
        option(
            f"--{change.name}",
            _parameter(change.name),
            help=change.help + ("" if change.kind == "flag" else " Repeatable."),
            **_KINDS[change.kind](change.choices),
        )
        for change in CHANGES.values()
    )
)
"""An option for each of the settings that can be changed."""


@click.command()
@click.argument("group")
@source_options
@range_options
@broker_config_option
@change_options
@option(
    "--broker-initial-delay",
    type=DURATION,
    help="The brokers' group.initial.rebalance.delay.ms then [from the log, else 3s].",
)
@option(
    "--client-heartbeat-interval",
    type=DURATION,
    help="The clients' heartbeat.interval.ms then [from the log, else 3s].",
)
@output_option()
@pass_query
def whatif(
    query: Query, /, group: str, broker_initial_delay: int | None, client_heartbeat_interval: int | None, **_: Any
) -> None:
    """Replay one group's history under other settings.

    The actions of its clients (joins, leaves, crashes, stalls) are read from the log and replayed in a model of the
    group protocol: under today's settings, which is compared with the log, and under others. Settings given together
    are tried together, each value of a repeated one separately; without any, a standard set is tried. STOPPED is
    stopped partition time in seconds, summed over partitions. An agent keeps a group's latest generations only; the
    log goes further back.

    \b
    Examples:
      kshadow whatif payments --from /var/lib/kafka/data --since 7d
      kshadow whatif payments --bootstrap-server localhost:9092 --static --session-timeout 2m
      kshadow whatif payments --agent http://localhost:9308 --since 1h
    """
    from agent.cli.answers import no_such_group, warn_stale
    from agent.presentation.narrative.phrases import is_sampled, is_simple
    from agent.simulation.whatif.calibrated_replay import CannotReplay, calibrate
    from agent.simulation.whatif.comparison import compare
    from agent.simulation.whatif.recorded_script import NothingToReplay, reason_not_replayable
    from agent.simulation.whatif.recorder import GroupRecorder

    with query.open(group, recorder=GroupRecorder(group)) as answers:
        since_ms, until_ms = query.range_ms(answers)
        recording = answers.recording(group)
        if (form := answers.describe(group)) is None and (recording is None or not recording.states):
            no_such_group(answers, group)
        warn_stale([form], answers)
        try:
            if recording is None and form is not None and is_sampled(form):
                raise CannotReplay("the agent looks at it by --source admin, which has no generations to replay")
            if recording is None and form is not None and is_simple(form):
                raise CannotReplay("the log shows no member of it")
            if recording is None:
                raise CannotReplay("the agent keeps no history of its members, or is of another version of kshadow")
            if (reason := reason_not_replayable(recording)) is not None:
                raise CannotReplay(reason)
            found = calibrate(
                recording.between(since_ms, until_ms),
                answers.now_ms if until_ms is None else min(until_ms, answers.now_ms),
                heartbeat_ms=client_heartbeat_interval,
                delay_ms=broker_initial_delay,
            )
            if client_heartbeat_interval is not None:
                _check_heartbeat(found.recorded.script, client_heartbeat_interval)
            result = compare(found, _alternatives(query.ctx, found))
        except (NothingToReplay, CannotReplay) as error:
            answers.report(warn)
            warn(f"Error: {printable_truncated(repr(group), MAX_TEXT)}: {error}")
            raise click.exceptions.Exit(1) from None
        if query.is_table:
            _print(found, result)
        else:
            print_value(_form(found, result), query.output)
        if recording.earlier:
            warn(f"({recording.earlier} earlier in the log under that name, deleted or of another type, left out)")
        if query.source == "agent" and not recording.reaches_back_to(since_ms or 0):
            warn(f"(the agent keeps no more than what was from {iso_time(recording.states[0].at_ms)} on)")


def _alternatives(ctx: click.Context, found: CalibratedReplay) -> list[Alternative]:
    """What the options ask for, each value of a repeated one by itself; else the standard set."""
    from agent.simulation.whatif.changes import standard_alternatives

    given = {
        name: [True] if change.kind == "flag" else list(ctx.params[_parameter(name)])
        for name, change in CHANGES.items()
        if ctx.params[_parameter(name)]
    }
    if not given:
        return standard_alternatives(found.recorded.script)
    out = [Alternative(dict(zip(given, values, strict=True))) for values in product(*given.values())]
    for alternative in out:
        _check_heartbeat(alternative.apply(found.recorded.script))
    return out


def _check_heartbeat(script: Script, heartbeat_ms: int | None = None) -> None:
    """Raise `click.UsageError` where a client could not work with its heartbeat interval, or with the one given."""
    from agent.simulation.whatif.changes import starts

    for start in starts(script):
        settings = start.settings
        beat_ms = settings.heartbeat_interval_ms if heartbeat_ms is None else heartbeat_ms
        if not 0 < beat_ms < min(settings.session_timeout_ms, settings.max_poll_interval_ms):
            raise click.UsageError(
                "the heartbeat interval must be more than 0 and less than the session and the poll timeout, or "
                f"no rebalance could end: {beat_ms}, {settings.session_timeout_ms} and "
                f"{settings.max_poll_interval_ms} ms"
            )


def _form(found: CalibratedReplay, result: Comparison) -> dict[str, Any]:
    from agent.simulation.whatif.comparison import outcome_json
    from agent.simulation.whatif.sentences import advice, assumptions, reproduced

    it = found.reproduction
    return {
        "group": found.recorded.script.group,
        "since_ms": found.recorded.opening_ms,
        "until_ms": found.recorded.closing_ms,
        "reproduced": {
            "exact": it.is_exact,
            "generations": it.generations,
            "matched": it.matched,
            "missing": it.generations - it.matched,
            "extra": sum(difference.recorded is None for difference in it.differences),
            "never_completed": found.recorded.notes.get("never_completed", 0),
            "log_stopped_partition_ms": found.recorded.stopped_ms,
            "generations_of_known_cost": it.costed,
            "their_stopped_partition_ms": it.stopped_ms,
            "their_log_stopped_partition_ms": it.log_stopped_ms,
            "has_times_of_log": it.has_times_of_log,
            "off_at_most_ms": max(map(abs, it.late_ms), default=None),
            "sentences": reproduced(found, result),
        },
        "settings": [outcome_json(result, outcome) for outcome in result.outcomes],
        "not_played": [{"setting": alternative.label, "reason": reason} for alternative, reason in result.not_played],
        "advice": advice(found, result),
        "assumptions": list(assumptions(found, result)),
    }


def _print(found: CalibratedReplay, result: Comparison) -> None:
    from agent.simulation.whatif.sentences import advice, assumptions, detection, headline, reproduced, saving

    for text in (headline(found), *reproduced(found, result)):
        echo_text(text)
    echo("")
    rows = [
        {
            "setting": it.alternative.label,
            "rebalances": it.rebalances,
            "stopped": _seconds(it.stopped_ms),
            "rebalancing": _seconds(it.stopped.rebalancing),
            "undetected": _seconds(it.stopped.undetected),
            "unowned": _seconds(it.stopped.unowned),
            "detects": detection(it),
            "saved": saving(found, result, it),
        }
        for it in result.outcomes
    ]
    print_rows(rows, "table", _COLUMNS)
    echo("\n" + bold("What would have helped most"))
    for text in advice(found, result):
        echo_text(text, "  - ", "    ")
    echo("\n" + bold("Assumptions"))
    for text in assumptions(found, result):
        echo_text(text, "  - ", "    ")


def _seconds(ms: int) -> float:
    return round(ms / 1000, 1)
