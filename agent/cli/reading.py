"""Answers of what is read here, files or a broker's topic, to its end or up to a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from agent.cli.access import Answers, Last, Past, now_ms
from agent.cli.output import warn
from agent.cli.text import when
from agent.coordinator.hashing import partition_of
from agent.diagnosis.cluster import NOTHING, Chosen
from agent.ends import End, UpTo
from agent.forms import LagOf
from agent.moments import Moment
from agent.offline import Loaded, load, load_topic, newest_ms, reads_once
from agent.shadow.told import Witness
from agent.whatif.recorder import Recorder


def offline(
    path: str,
    group: str | None,
    chosen: Chosen | None,
    until: Moment | None,
    recorder: Recorder | None = None,
    witness: Witness | None = None,
) -> Answers:
    """`chosen`: the history is wanted too, with what these analyzers find. `until`: as it was then.
    `recorder` follows its group, `witness` testifies."""
    once = reads_once(path)
    until_ms = None
    if until is not None:
        if until.at_ms is None and once:
            raise click.UsageError(
                f"--until: a time expected, a duration came: it is counted back from the newest record, and {path} "
                "can be read only once"
            )
        until_ms = until.before(newest_ms(path) if until.at_ms is None else 0)
    loaded = load(
        [path],
        on_problem=warn,
        keep_events=chosen is not None,
        group=group,
        chosen=chosen or NOTHING,
        end=None if until_ms is None else UpTo(until_ms),
        recorder=recorder,
        witness=witness,
    )
    if until is not None and not loaded.last_ms:
        raise click.UsageError(f"--until: records with times expected, none came {loaded.where}")

    def again(end: End) -> Loaded:
        return load([path], on_problem=_said_before, keep_events=False, end=end)

    return ReadAnswers(loaded, live=False, until_ms=until_ms, again=None if once else again)


def live(
    conf: dict[str, str],
    group: str | None,
    chosen: Chosen | None,
    until: Moment | None,
    recorder: Recorder | None = None,
    witness: Witness | None = None,
    *,
    lag: bool = False,
) -> Answers:
    """The same of a broker's topic: of the group's partition, where only one group is asked for. `lag`: with where
    what it has committed ends now."""
    from agent.source.brokers import coordinators

    partitions = None
    if group is not None:
        count, _ = coordinators(conf)
        partitions = [partition_of(group, count)]
    until_ms = None if until is None else until.before(now_ms())
    loaded = load_topic(
        conf,
        partitions,
        keep_events=chosen is not None,
        group=group,
        chosen=chosen or NOTHING,
        on_problem=warn,
        end=None if until_ms is None else UpTo(until_ms),
        recorder=recorder,
        witness=witness,
    )
    loaded.advance(now_ms())

    def again(end: End) -> Loaded:
        return load_topic(conf, partitions, end=end)

    asking = _Lag(conf, loaded) if lag and until is None else None
    return ReadAnswers(loaded, live=True, until_ms=until_ms, again=again, lag=asking)


class _Lag:
    """Asks a broker for the ends of what a group has committed."""

    def __init__(self, conf: dict[str, str], loaded: Loaded) -> None:
        self._conf, self._loaded = conf, loaded

    def __call__(self, group: str) -> LagOf | None:
        from agent.lag.once import lag_of, look_once

        found = self._loaded.mirror.find(group)
        return None if found is None else lag_of(look_once(self._conf, found[1]), now_ms(), are_newer=True)


def _said_before(_: str) -> None:
    """What is wrong with the data was said when it was read first."""


class ReadAnswers:
    """Answers of what was read here: files, or the topic to its end."""

    def __init__(
        self,
        loaded: Loaded,
        *,
        live: bool,
        until_ms: int | None = None,
        again: Callable[[End], Loaded] | None = None,
        lag: Callable[[str], LagOf | None] | None = None,
    ) -> None:
        """`until_ms`: what came later was not applied. `again` reads the same once more, where that can be done.
        `lag` asks for a group's."""
        self.live = live
        self.now_ms = now_ms() if live else loaded.last_ms
        self.as_of_ms = None if until_ms is None else min(until_ms, self.now_ms)
        self.where = loaded.where if until_ms is None else f"{loaded.where} as of {when(self.as_of_ms)}"
        self.groups, self.report, self.findings = loaded.groups, loaded.report, loaded.findings
        self.events = loaded.events
        self._loaded, self._again, self._lag = loaded, again, lag

    def describe(self, group: str) -> dict[str, Any] | None:
        """With lag, where that is asked for."""
        return self._loaded.describe(group, None if self._lag is None else self._lag(group))

    def last(self, group: str) -> Last | None:
        """Reads once more, up to where the last members went."""
        left = self._loaded.left
        if left is None:
            return None
        as_of_ms = left.at.timestamp_ms - 1 if left.at.timestamp_ms > 0 else None
        if self._again is None:
            return Last(as_of_ms, None)
        form = self._again(left).describe(group)
        return Last(as_of_ms, form) if form is not None and form["members"] else None

    def past(self, group: str, since_ms: int | None = None, until_ms: int | None = None) -> Past | None:
        """All that was read of it."""
        events = self._loaded.timeline(group, since_ms, until_ms)
        return None if events is None else Past(events, None)
