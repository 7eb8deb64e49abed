"""Every play: how often it is drawn, and which brokers have what it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.harness.rig import changes, faults, modern
from tests.harness.rig.stage import Stage


@dataclass(frozen=True, slots=True)
class Play:
    """A scenario: its weight when plays are drawn, the least Kafka major version that it needs, and whether members
    of any library can play it, as nothing in it is librdkafka's own."""

    act: Callable[[Stage], None]
    weight: int = 2
    since: int = 3
    any_library: bool = False


PLAYS: dict[str, Play] = {
    "crash": Play(faults.crash, 4, any_library=True),
    "freeze": Play(faults.freeze, 3, any_library=True),
    "stall": Play(faults.stall, 5, any_library=True),
    "stall_like_crash": Play(faults.stall_like_crash),
    "slow": Play(faults.slow, any_library=True),
    "crash_loop": Play(faults.crash_loop, 3, any_library=True),
    "crash_and_join": Play(faults.crash_and_join, 3, any_library=True),
    "mixed": Play(faults.mixed, 3, any_library=True),
    "idle": Play(faults.idle),
    "scale": Play(changes.scale, 4, any_library=True),
    "coop": Play(changes.cooperative, 3),
    "coop_pair": Play(changes.cooperative_pair),
    "deploy": Play(changes.deploy, 4, any_library=True),
    "static": Play(changes.static, 3),
    "resubscribe": Play(changes.resubscribe),
    "match": Play(changes.match, 1),
    "grow": Play(changes.grow),
    "removed_by_admin": Play(changes.removed_by_admin),
    "delete": Play(changes.delete, 1),
    "unsubscribe": Play(changes.unsubscribe, 1),
    "java": Play(modern.java_console, 1),
    "streams": Play(modern.streams, 1, since=4),
    "streams_1071": Play(modern.streams_protocol, 1, since=4),
    "848": Play(modern.consumer_protocol, 2, since=4),
    "848_static": Play(modern.consumer_protocol_static, 1, since=4),
    "migrate": Play(modern.migrate, 1, since=4),
    "share": Play(modern.share, 1, since=4),
}
"""By name. Each is played once, then they are drawn by weight."""
