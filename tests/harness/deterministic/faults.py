"""What goes wrong in a run, and when: drawn from the seed, and a list, so that it can be shortened.

Owns kinds of faults and how often each is. What each does is for `world`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

from tests.harness.deterministic.workload import HOUR_MS


class Kind(StrEnum):
    """What goes wrong."""

    KILL = "kill"
    """The process is gone, as by SIGKILL, so many calls later; what it wrote is there."""
    POWER = "power"
    """The machine is gone, so many calls later; what it synced is there."""
    STOP = "stop"
    """The agent is stopped, and started anew."""
    SILENCE = "silence"
    """No broker answers."""
    LEADERLESS = "leaderless"
    """One partition has no leader."""
    STALL = "stall"
    """Fetches of a partition get nothing, though its end is told."""
    SLOW_BROKER = "slow_broker"
    """Answers take up to a second and a half."""
    LOST_OFFSET = "lost_offset"
    """A leader says of a partition that the offset to read from does not exist."""
    SINK_DOWN = "sink_down"
    SINK_UNSURE = "sink_unsure"
    """Writes are done, or done in part, and not acknowledged."""
    SINK_SLOW = "sink_slow"
    SNAPSHOTS_FULL = "snapshots_full"
    """No room for snapshots."""
    SPOOL_FULL = "spool_full"
    """No room for the spool."""
    TORN_SNAPSHOT = "torn_snapshot"
    """A kept file is damaged, and the process killed."""
    WALL_JUMP = "wall_jump"
    """Somebody sets the clock on this machine's wall."""
    OLD_DISK = "old_disk"
    """The process is killed later, and what it kept is given back as it is now."""
    COMPACT = "compact"
    """Of a partition's older records only the last of each key stays."""
    DELETE_RECORDS = "delete_records"
    """A partition's first records go."""
    TRUNCATE = "truncate"
    """A partition's leader is one that lacks the newest records."""
    RECREATE = "recreate"
    """The topic is deleted and made anew."""
    MOVE = "move"
    """Of an agent that shares the topic with others a partition is taken, and given back later; where `size` is small
    it is lost: told only when another has it."""
    RELEASE = "release"
    """The agent is stopped, and goes on as another release: a later one, whose snapshots have another format, or the
    one before, which refuses them."""


WEIGHTS = {
    Kind.KILL: 4.0,
    Kind.POWER: 3.0,
    Kind.STOP: 2.0,
    Kind.SILENCE: 1.5,
    Kind.LEADERLESS: 1.0,
    Kind.STALL: 1.0,
    Kind.SLOW_BROKER: 1.0,
    Kind.LOST_OFFSET: 1.5,
    Kind.SINK_DOWN: 2.0,
    Kind.SINK_UNSURE: 2.0,
    Kind.SINK_SLOW: 1.0,
    Kind.SNAPSHOTS_FULL: 1.0,
    Kind.SPOOL_FULL: 1.0,
    Kind.TORN_SNAPSHOT: 1.0,
    Kind.WALL_JUMP: 1.0,
    Kind.OLD_DISK: 0.7,
    Kind.COMPACT: 1.0,
    Kind.DELETE_RECORDS: 0.7,
    Kind.TRUNCATE: 0.7,
    Kind.RECREATE: 0.5,
}


WHERE = ("", "", "snapshot", "spool", "topic", "parquet", "poll")
"""At which calls a process dies: any, those to a disk, a sink or a broker."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One, from `at_s` on (seconds since the run began) for `lasts_s`. `calls`: how many waits later it comes, once
    it is due. `partition`, `size`: of what, and how much, where the kind has that."""

    at_s: float
    kind: Kind
    lasts_s: float = 0.0
    calls: int = 0
    partition: int = 0
    size: float = 0.0
    where: str = ""
    """With what the names of calls begin that count."""


def choose(seed: int, partitions: int) -> list[Fault]:
    """A seed's, in the order of time."""
    rng = random.Random(f"faults {seed}")
    # Each seed has its own mix: some only one kind, some all.
    kinds = [it for it in WEIGHTS if rng.random() < 0.5] or [Kind.KILL]
    weights = [WEIGHTS[it] for it in kinds]
    out = []
    for _ in range(rng.randint(0, 12)):
        kind = rng.choices(kinds, weights)[0]
        at_s = round(rng.uniform(0.1, HOUR_MS / 1000), 3)
        lasts_s = round(rng.choice((0.5, 5.0, 30.0, 120.0)) * rng.uniform(0.5, 1.5), 3)
        size = round(rng.uniform(0.0, 1.0), 3)
        where = rng.choice(WHERE) if kind in (Kind.KILL, Kind.POWER) else ""
        out.append(Fault(at_s, kind, lasts_s, int(rng.paretovariate(0.7)), rng.randrange(partitions), size, where))
    if shares(seed):
        rng = random.Random(f"moves {seed}")
        for _ in range(rng.randint(1, 6)):
            at_s, lasts_s = round(rng.uniform(0.1, HOUR_MS / 1000), 3), round(rng.choice((1.0, 5.0, 60.0, 600.0)), 3)
            out.append(Fault(at_s, Kind.MOVE, lasts_s, 0, rng.randrange(partitions), round(rng.random(), 3)))
    rng = random.Random(f"releases {seed}")
    if rng.random() < 0.15:
        out += [Fault(round(rng.uniform(0.1, HOUR_MS / 1000), 3), Kind.RELEASE) for _ in range(rng.randint(1, 3))]
    return sorted(out, key=lambda it: it.at_s)


def shares(seed: int) -> bool:
    """Whether its agent is one of several that share the topic's partitions."""
    return random.Random(f"shares {seed}").random() < 0.2
