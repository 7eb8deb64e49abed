"""One partition of `__consumer_offsets` carries far more than its share, and so does the broker that leads it.

Rule: over windows of five minutes, a partition took in `times_mean` times the mean of the others, and
`min_records_per_s` at least.
Known false alarms: `CoordinatorHotspot.false_alarms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

from agent.core.state_fields import StateFields
from analyzers.api import ClusterAnalyzer, Condition, LoadWindow, Settings, Severity, Verdict, setting
from analyzers.formatting import truncated

DOMINANT_GROUP_PART = 0.5
"""The part of a partition's records from which on one group makes it what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HotspotSettings(Settings):
    """Why these: a broker takes thousands of commits a second, so below 500 none is in trouble; that is 2,500
    partitions committed every five seconds, the clients' default. Hashing alone leaves a partition two or three times
    the mean where groups are many and alike. What holds for three windows is no deployment and no catching up."""

    open_after_s: float = setting(600.0, "seconds that the condition must hold before a finding opens")
    close_after_s: float = setting(600.0, "seconds that it must be gone before the finding closes")
    times_mean: float = setting(5.0, "how many times the mean of the other partitions is hot", least=1)
    min_records_per_s: float = setting(500.0, "records a second below which no partition is hot")
    min_partitions: int = setting(5, "partitions that must be read to compare", least=2)


class CoordinatorHotspot(ClusterAnalyzer):
    """Compares the partition with the most records to the others."""

    STATE: ClassVar = StateFields({})

    name = "coordinator_hotspot"
    rule = (
        "In consecutive windows of five minutes one partition of __consumer_offsets received at least `times_mean` "
        "times the mean of the others, and at least `min_records_per_s` records a second."
    )
    false_alarms = (
        "A cluster whose only busy group is meant to be busy. Silent where fewer than `min_partitions` partitions "
        "are read (a sidecar reads one), and on what compaction has removed: it leaves one record a position, "
        "however many there were."
    )
    settings_class = HotspotSettings
    settings: HotspotSettings

    def judge(self, window: LoadWindow) -> Verdict:
        """Look at one window; the hysteresis asks for several in a row."""
        settings = self.settings
        if window.partitions < settings.min_partitions or not window.loads:
            return Verdict()
        partition, load = max(window.loads.items(), key=lambda it: (it[1].records, -it[0]))
        others = [it.records for number, it in window.loads.items() if number != partition]
        # Partitions without a record in the window are not in its loads.
        others += [0] * (window.partitions - len(window.loads))
        mean = sum(others) / len(others)
        per_s = load.records * 1000 / (window.end_ms - window.start_ms)
        if per_s < settings.min_records_per_s or load.records < settings.times_mean * mean:
            return Verdict()
        part = 0.0 if load.group is None else min(load.group_commits / load.records, 1.0)
        numbers = {
            "partition": partition,
            "partitions": window.partitions,
            "records": load.records,
            "records_per_s": round(per_s, 1),
            "part_of_all": round(load.records / (load.records + sum(others)), 3),
            "others_mean": round(mean, 1),
            "others_median": median(others),
            "group": None if load.group is None else truncated(load.group),
            "group_part": round(part, 3),
        }
        return Verdict(Condition(Severity.WARNING, _summary(numbers), _advice(numbers), numbers, partition))


def _summary(numbers: Mapping[str, Any]) -> str:
    mean = numbers["others_mean"]
    versus = (
        f"{numbers['records'] / mean:.0f} times the mean of the others"
        if mean
        else "while the others receive almost none"
    )
    most = f"; {100 * numbers['group_part']:.0f} % of them are commits of group {numbers['group']}"
    return (
        f"Partition {numbers['partition']} of __consumer_offsets receives {numbers['records_per_s']:.0f} records a "
        f"second, {100 * numbers['part_of_all']:.0f} % of all {numbers['partitions']} partitions, {versus}"
        f"{most if numbers['group'] is not None else ''}."
    )


def _advice(numbers: Mapping[str, Any]) -> str:
    group = numbers["group"]
    leader = f"The broker that leads partition {numbers['partition']} has this load, and coordinates its groups."
    if group is not None and numbers["group_part"] >= DOMINANT_GROUP_PART:
        return (
            f"Raise auto.commit.interval.ms of {group} (5000 by default), or commit once per batch instead of "
            "per record; "
            "after a crash more records are consumed again. Or split it into several groups, which have other "
            f"partitions. {leader}"
        )
    return (
        "Raise auto.commit.interval.ms of its busy groups (5000 by default), or commit once per batch instead of per "
        "record; after a crash more records are consumed again. Or give one of them another group.id, which moves it "
        f"to another partition, without its offsets. {leader}"
    )
