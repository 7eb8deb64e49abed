"""The commands, a file each: parse, call one function, print.

To add one, write a file here, named after it, that defines a click command of that name, and a row of `LISTINGS`,
which says where `kshadow --help` shows it. Only the command that is called is imported: each call stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import click

SECTIONS = START, SEE, WHY, RECORDS, SET_UP = (
    "Start",
    "See what is going on",
    "Find out why, and what to change",
    "Records and history",
    "Set up",
)
"""Of the help: what commands are good for, for people who look for one."""


class Listing(NamedTuple):
    """Where the help lists a command, and as what.

    `place`: the one in its section. `help`: the first line of the command's docstring (a test checks).
    """

    section: str
    place: int
    help: str


LISTINGS = {
    "run": Listing(START, 3, "Run the agent: follow the topic and serve metrics and the API."),
    "demo": Listing(START, 1, "Watch the agent diagnose a real embedded broker under real faults."),
    "decode": Listing(RECORDS, 1, "Print every record of the topic, decoded."),
    "replay": Listing(RECORDS, 2, "Print the history in the log, as events."),
    "groups": Listing(SEE, 1, "List the groups."),
    "describe": Listing(SEE, 2, "Show one group: state, members, assignment, offsets."),
    "members": Listing(SEE, 3, "List the members of one group."),
    "lag": Listing(SEE, 4, "Show the lag of one group, by partition."),
    "timeline": Listing(WHY, 2, "Show the events of one group, in order."),
    "explain": Listing(WHY, 1, "Explain one group: what happened, why, how sure that is, and what to do."),
    "whatif": Listing(WHY, 4, "Replay one group's history under other settings."),
    "verdict": Listing(WHY, 7, "Judge a group's newest rollout: better, same, worse or harmful."),
    "findings": Listing(SEE, 5, "List the open findings, or those of a range."),
    "watch": Listing(SEE, 6, "Watch the groups live, full screen."),
    "analyzers": Listing(WHY, 6, "List the analyzers: when each fires, its false alarms, its settings."),
    "report": Listing(WHY, 3, "Write one HTML page about a time range, to keep or to send."),
    "doctor": Listing(
        START, 2, "Check connection, permissions, topic and clock: what works, and how to fix what does not."
    ),
    "assign": Listing(WHY, 5, "Show the assignment that each assignor would compute."),
    "generate": Listing(RECORDS, 4, "Write synthetic histories of groups as real records."),
    "schema": Listing(RECORDS, 7, "List the JSON Schemas of events and answers, or print one."),
    "history": Listing(RECORDS, 5, "Aggregate, report and query months of history on this machine."),
    "spark": Listing(RECORDS, 6, "Run a Spark job over months of history."),
    "sidecar": Listing(SET_UP, 4, "Make the container for a pod, or patch a manifest with it."),
    "config": Listing(SET_UP, 1, "Show the settings in force, or check a settings file."),
    "context": Listing(SET_UP, 2, "Name clusters, and choose one."),
    "completion": Listing(SET_UP, 3, "Print the script that completes commands and groups in a shell."),
    "coordinator": Listing(RECORDS, 3, "Show the partition and broker that own a group."),
}
"""Each command by its name, in the order in which they are listed where there are no sections."""


def find_command(name: str) -> click.Command | None:
    """Import a command; None if there is none of this name."""
    if name not in LISTINGS:
        return None
    command: click.Command = getattr(import_module(f"{__name__}.{name}"), name)
    return command
