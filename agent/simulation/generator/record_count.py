"""How many records settings come to, and settings that come to so many."""

from __future__ import annotations

from msgspec.structs import replace

from agent.simulation.generator.plans import GroupPlan, GroupPlans
from agent.simulation.generator.scenario_kinds import SCENARIO_KINDS, GroupKind, rounds
from agent.simulation.generator.settings import LEAST_DURATION_MS, GeneratorSettings

LEAST_INTERVAL_MS = 10
"""Some groups commit twice as often; with fewer milliseconds there is no fair share of one."""
_TURNS = 4
_TAKES_OFF_MS = 12_000
"""A history's first commits come about so long after its beginning: groups form, and then wait for their interval."""


def expected_records(settings: GeneratorSettings) -> tuple[float, float]:
    """About how many records there will be: commits from time to time, and all others.

    The former grow with the duration, and as the commit interval shrinks.
    """
    plans = GroupPlans(settings)
    steady = other = 0.0
    for number in range(settings.groups):
        plan = plans.plan(number)
        fate = SCENARIO_KINDS[plan.scenario_kind]
        steady += plan.partition_count * fate.consuming_share * _consumes_ms(settings) / plan.commit_interval_ms
        if fate.build is not None:
            other += 2 + fate.rebalances(plan.members) * rounds(settings.duration_ms) * _of_a_rebalance(plan)
    return steady, other


def with_interval_for(settings: GeneratorSettings, records: int) -> GeneratorSettings:
    """The settings with the commit interval that makes about so many records in their time."""
    steady, other = expected_records(settings)
    interval_ms = round(settings.commit_interval_ms * steady / _left(settings, records, steady, other))
    if interval_ms < LEAST_INTERVAL_MS:
        raise ValueError(
            f"{settings.groups} groups that commit each {LEAST_INTERVAL_MS} ms make fewer records in"
            f" {settings.duration_ms} ms: expected fewer records than {records}, more groups or a longer duration"
        )
    return replace(settings, commit_interval_ms=interval_ms)


def with_duration_for(settings: GeneratorSettings, records: int) -> GeneratorSettings:
    """The settings with the duration that makes about so many records at their commit interval."""
    for _ in range(_TURNS):  # in a longer time more else happens
        steady, other = expected_records(settings)
        consumes = _consumes_ms(settings) * _left(settings, records, steady, other) / steady
        duration_ms = round(consumes) + _TAKES_OFF_MS
        if duration_ms < LEAST_DURATION_MS:
            raise ValueError(
                f"{settings.groups} groups that commit each {settings.commit_interval_ms} ms make {records} records"
                f" in {duration_ms} ms: expected a minute or more, of more records, fewer groups or a longer interval"
            )
        settings = replace(settings, duration_ms=duration_ms)
    return settings


def _of_a_rebalance(plan: GroupPlan) -> float:
    """About how many records a rebalance is, and makes members commit."""
    match plan.kind:
        case GroupKind.CONNECT:
            return 1
        case GroupKind.CONSUMER:
            # The epoch and the target's, then for each member a target and where it stands; few give up much.
            return 2 + 2 * plan.members + plan.partition_count / 4
        case _:
            # What all hold; about half of it where most stay.
            return 1 + plan.partition_count / 2


def _consumes_ms(settings: GeneratorSettings) -> int:
    return settings.duration_ms - _TAKES_OFF_MS


def _left(settings: GeneratorSettings, records: int, steady: float, other: float) -> float:
    if not steady:
        raise ValueError("expected groups that commit offsets, these fates have none")
    if records <= other:
        raise ValueError(
            f"{settings.groups} groups like these make about {round(other)} records besides their regular commits:"
            f" expected more records than that, got {records}"
        )
    return records - other
