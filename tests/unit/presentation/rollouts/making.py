"""Events of a group as the history has them, for who comes and goes by hand: with origins, which no log tells."""

from __future__ import annotations

from typing import Any

T0 = 1_795_000_000_000
S, MINUTE = 1_000, 60_000
Event = dict[str, Any]


def origin(kind: str, revision: str | None = None, *, code: int | None = None, message: str = "") -> Event:
    return {
        "kind": kind,
        "at_ms": T0,
        "namespace": "shop",
        "pod": "payments-0",
        "container": "app",
        "node": "n1",
        "workload": "Deployment/payments",
        "revision": revision,
        "exit_code": code,
        "message": message,
    }


def member(name: str, number: int = 0, why: Event | None = None) -> Event:
    """`number`: of the membership, since an id lasts for one."""
    return {
        "member_id": f"{name}#{number}",
        "client_id": name,
        "client_host": f"/10.0.0.{number}",
        "instance_id": None,
        "client_library": "java",
        "origin": why,
    }


def gone(name: str, number: int = 0, why: Event | None = None, cause: str = "member_left") -> Event:
    return {**member(name, number, why), "cause": cause, "confidence": 0.9}


class Group:
    """A group's events, one rebalance after the other."""

    def __init__(self, members: int) -> None:
        self.members = 0
        self.events: list[Event] = [self._event(0, "group_created", observed=True)]
        self.rebalance(0, joined=[member(f"payments-{at}") for at in range(members)])

    def _event(self, after_ms: int, kind: str, **own: Any) -> Event:
        head = {"schema": 1, "event_id": "0-0-0", "type": kind, "cluster": None, "group": "payments"}
        return {**head, "group_type": "classic", "at_ms": T0 + after_ms, "partition": 1, "offset": 1, **own}

    def rebalance(
        self, after_ms: int, *, joined: list[Event] | None = None, left: list[Event] | None = None
    ) -> Group:
        came, went = joined or [], left or []
        self.members += len(came) - len(went)
        self.events.append(
            self._event(
                after_ms,
                "rebalance",
                generation=len(self.events),
                previous_generation=len(self.events) - 1,
                cause="member_joined",
                causes=["member_joined"],
                confidence=1.0,
                evidence=[],
                observed=False,
                joined=came,
                left=went,
                protocol="range",
                members=self.members,
                sync_ms=1,
                join_ms=None,
                stopped_partition_ms=1_000,
            )
        )
        return self

    def assigned(self, after_ms: int, partitions: int) -> Group:
        changed = {"assigned_partitions": partitions, "gained_partitions": partitions, "lost_partitions": 0}
        self.events.append(self._event(after_ms, "assignment_changed", **changed, imbalance_ratio=1.0))
        return self

    def sample(self, after_ms: int, records: int, seconds: float, unknown: int = 0) -> Group:
        """`unknown`: of how many of its 12 positions the lag is not known."""
        lag = {"partitions": 12, "lag_partitions": 12 - unknown, "lag_records": records, "lag_seconds": seconds}
        self.events.append(self._event(after_ms, "group_sample", **lag, lag_at_least=False))
        return self
