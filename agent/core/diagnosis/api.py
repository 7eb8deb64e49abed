"""What an analyzer is, for those shipped here and for third parties' (entry point `kshadow.analyzers`).

An analyzer watches one group. It is told what changed (`observe`) and what was committed (`sample`), and answers,
when asked, whether its condition holds now (`judge`). It owns no clock: times come in as arguments, all of them epoch
milliseconds on the event clock of the group's partition. Opening and closing findings, with hysteresis, is not its
work but the engine's (`agent.core.diagnosis`).

A `ClusterAnalyzer` watches what spans groups: how much each partition of the topic carries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, Protocol

from msgspec import Struct

from agent.core.diagnosis.severity import Severity as Severity
from agent.core.inference.origins import Origin
from agent.core.shadow.transitions import LogPosition, Transition
from agent.core.shadow.views import CommittedOffset, GroupView, Position

TopicPartition = tuple[str, int]
"""A topic's name and a partition of it."""

WINDOW_MS = 300_000
"""What is counted is counted in windows of five minutes: short enough to follow a change, long enough to even out.
Each ends on the event clock at a multiple of its length."""


class Condition(Struct, frozen=True):
    """What is wrong, as of now. `summary` says what, with numbers, in one sentence; `advice` what to do about it,
    with the setting's name; `numbers` are the facts for machines: numbers, short texts and short lists of them.

    Texts name groups, topics and clients as they are: whoever shows them makes them fit to be shown.
    """

    severity: Severity
    summary: str
    advice: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    partition: int | None = None
    """For conditions of the cluster: the partition of `__consumer_offsets` that it is about."""


class Verdict(NamedTuple):
    """Whether the condition holds now, and when to ask again if nothing happens before (None: no need)."""

    condition: Condition | None = None
    wake_ms: int | None = None


def setting(default: Any, help: str, *, least: float = 0) -> Any:
    """A field of a `Settings`: its default, what it means with its unit, and the least value that makes sense."""
    return field(default=default, metadata={"help": help, "least": least})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What every analyzer has; each adds its thresholds. Durations are seconds, in the name too (`_s`)."""

    open_after_s: float = setting(0.0, "seconds that the condition must hold before a finding opens")
    close_after_s: float = setting(300.0, "seconds that it must be gone before the finding closes")


class Sample(NamedTuple):
    """Positions of one group that were committed since the sample before, each as it stands now.

    A sample comes as a minute of event time ends, only of groups that committed, and only where enough commits came
    to be worth it; else with one of the next minutes, at the latest as the window (`WINDOW_MS`) ends.
    """

    at_ms: int
    positions: Mapping[TopicPartition, Position]


class LagLook(NamedTuple):
    """All positions of one group whose lag is known, committed lately or not, each as it stands at `at_ms`.

    `lags` has the records behind each of `positions`, as of `seen_ms`: when the ends were seen. What is not known is
    in neither. Looks come only where ends are known: from a live agent that watches them, or from samples in a
    history.
    """

    at_ms: int
    seen_ms: int
    positions: Mapping[TopicPartition, Position]
    lags: Mapping[TopicPartition, int]


class GroupContext(Protocol):
    """The group that is watched, as it stands now. Views are made when asked for."""

    name: str
    now_ms: int
    """The event clock of its partition."""

    known_ms: int
    """Until when its commits are known: up to now, or to the last sample if commits came that none has shown yet."""

    @property
    def view(self) -> GroupView | None:
        """State, members and assignment; None if the group is gone. When it last committed is not in it."""

    @property
    def holders(self) -> Mapping[TopicPartition, str]:
        """By partition, the id of the member that reads it and commits it; empty if the group is gone. Of a Streams
        group (KIP-1071), whose members have tasks, as its topology tells."""

    @property
    def last_commit_ms(self) -> int | None:
        """When it last committed, of the offsets that it still keeps; None: not known, or it did not. It takes a look
        at each."""

    @property
    def offsets(self) -> tuple[CommittedOffset, ...]:
        """Every committed position. Costs a decode for each: not for every sample."""

    @property
    def origins(self) -> Mapping[str, Origin]:
        """Of the members that left lately, by member id, what happened to their pods; empty where nobody tells."""

    @property
    def consumed(self) -> Mapping[TopicPartition, int]:
        """Records by partition that were consumed in the last minutes (`agent.core.diagnosis.consumption`), as far as
        commits tell; a partition that was committed but did not move is in it with 0."""


class Analyzer(ABC):
    """Watches one group; one instance for each group: of many groups, so those shipped here have slots."""

    __slots__ = ("settings",)

    name: ClassVar[str]
    rule: ClassVar[str]
    """When it fires, in a sentence or two, thresholds by their setting's names."""
    false_alarms: ClassVar[str]
    """When it may fire without need, or be silent with need."""
    settings_class: ClassVar[type[Settings]] = Settings
    samples: ClassVar[bool] = False
    """Whether it wants samples: then it is also judged after each."""

    def __init__(self, settings: Settings) -> None:
        """`settings` is an instance of `settings_class`."""
        self.settings = settings

    def observe(self, transition: Transition, group: GroupContext) -> None:  # noqa: B027  # most want one of the two
        """The group changed; `group` is as of after all that the same record changed."""

    def sample(self, sample: Sample, group: GroupContext) -> None:  # noqa: B027  # see `observe`
        """What the group committed since the sample before."""

    @property
    def look_ms(self) -> int | None:
        """How often, on the event clock, it wants a `look`; None for never. The settings alone decide; the group's
        partition decides when the first would be, so that not all partitions are looked at at once."""
        return None

    @property
    def wants_look(self) -> bool:
        """Whether it wants one now: a group without members, say, needs none."""
        return True

    def look(self, look: LagLook, group: GroupContext) -> None:  # noqa: B027  # see `observe`
        """How far behind the group is; then it is judged."""

    @abstractmethod
    def judge(self, group: GroupContext) -> Verdict:
        """Whether the condition holds at `group.now_ms`. Asked after `observe`, after `sample`, and at `wake_ms`."""


class PartitionLoad(NamedTuple):
    """What one partition of the topic took in during a window; `group` made most of the commits.

    `records_ahead` of the records had timestamps ahead of the records around them, or live of the clock on the wall,
    by `farthest_ahead_ms` at most.
    """

    records: int
    group: str | None
    group_commits: int
    records_ahead: int = 0
    farthest_ahead_ms: int = 0


class LoadWindow(NamedTuple):
    """The load of every partition that is read, from `start_ms` to before `end_ms`."""

    start_ms: int
    end_ms: int
    partitions: int
    """How many partitions are read; those without a record in the window are not in `loads`."""
    loads: Mapping[int, PartitionLoad]


class ClusterAnalyzer(ABC):
    """Watches all partitions of the topic; one instance."""

    name: ClassVar[str]
    rule: ClassVar[str]
    false_alarms: ClassVar[str]
    settings_class: ClassVar[type[Settings]] = Settings

    def __init__(self, settings: Settings) -> None:
        """`settings` is an instance of `settings_class`."""
        self.settings = settings

    @abstractmethod
    def judge(self, window: LoadWindow) -> Verdict:
        """Whether the condition holds as of the window's end; asked for one window after the other."""


class FindingState(StrEnum):
    """Whether a finding is open."""

    FIRING = "firing"
    RESOLVED = "resolved"


class Finding(Struct, frozen=True):
    """A finding opened, changed its severity, or closed.

    `since_ms` is when its condition began to hold; with the group (None: the cluster) and the analyzer's name it says
    which finding it is. `at` is when, and the last record before.
    """

    kind: ClassVar[str] = "finding"

    at: LogPosition
    group: str | None
    group_type: str | None
    analyzer: str
    severity: Severity
    state: FindingState
    since_ms: int
    summary: str
    advice: str
    numbers: Mapping[str, Any]
    sampled_every_ms: int | None = None
    """Where the group is looked at and no record is read: how often its state is."""
