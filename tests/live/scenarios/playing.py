"""All scenarios of a version, side by side, a step at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.live.scenarios.scenarios import Expected, scenarios

if TYPE_CHECKING:
    from tests.live.scenarios.conftest import Cluster


@dataclass
class Played:
    """How a scenario went."""

    steps: int = 0
    problem: str | None = None
    groups: set[str] = field(default_factory=set)
    is_told: bool = False
    """Whether its test has run."""


@dataclass
class Performance:
    """All scenarios of a version, and what the mirror got wrong on the way."""

    played: dict[str, Played]
    differences: list[str]


def play(cluster: Cluster, names: list[str]) -> Performance:
    """All scenarios a step forward, wait, compare all groups; until every scenario is through."""
    known = scenarios(cluster.version)
    playing: dict[str, Iterator[Expected]] = {}
    played = {name: Played() for name in names}
    for name in names:
        protocol, scenario = known[name]
        playing[name] = scenario(replace(cluster.stage, protocol=protocol))
    differences: list[str] = []
    latest: Expected = {}

    def drop(name: str) -> None:
        del playing[name]
        for group in played[name].groups:
            latest.pop(group, None)

    while playing:
        began = time.monotonic()
        for name in list(playing):
            try:
                expected = next(playing[name])
            except StopIteration:
                drop(name)
            except Exception as error:  # noqa: BLE001  # told where the scenario is reported
                played[name].problem = f"step {played[name].steps + 1}: {error!r}"
                drop(name)
            else:
                played[name].steps += 1
                played[name].groups |= expected.keys()
                latest |= expected
        try:
            comparison = cluster.compare(latest)
        except AssertionError as error:
            # Who it is about is in the text; the others can go on without it.
            guilty = [name for name in playing if any(group in str(error) for group in played[name].groups)]
            if not guilty:
                raise
            for name in guilty:
                said = [it.said()[-4000:] for group in played[name].groups for it in cluster.fleet.of(group)]
                played[name].problem = "\n".join([f"step {played[name].steps}: {error}", *said])
                drop(name)
                # A group that never settles would hold up those of all others.
                for group in played[name].groups:
                    cluster.fleet.end(group)
            continue
        differences += comparison.all_differences()
        print(
            f"{comparison.total} comparisons, {comparison.groups} groups, {len(playing)} scenarios, "
            f"{time.monotonic() - began:.1f} s",
            *comparison.all_differences(),
            sep="\n  ",
        )
    return Performance(played, differences)
