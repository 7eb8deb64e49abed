"""Rollouts, as `kshadow verdict` prints one and the API answers them."""

from __future__ import annotations

from agent.core.causes import Cause
from agent.presentation.rollouts.measures import KILLED_AT_STOP, RolloutState
from agent.presentation.rollouts.verdicts import RolloutVerdict
from agent.presentation.schemas.builders import (
    AT_MS,
    COUNT,
    FLAG,
    INTEGER,
    RATIO,
    TEXT,
    Schema,
    array_of,
    closed_enum,
    described,
    map_of,
    nullable,
    object_of,
    open_enum,
    ref,
)

_VERDICT = closed_enum(RolloutVerdict)
_COST = nullable(
    object_of({"rebalances": COUNT, "stopped_partition_ms": described(COUNT, "Summed over partitions.")})
)

ROLLOUT_DEFS: dict[str, Schema] = {
    "rollout": object_of(
        {
            "cluster": nullable(TEXT),
            "group": TEXT,
            "state": described(closed_enum(RolloutState), "Steady: 30 s without a rebalance, all replaced."),
            "verdict": described(nullable(_VERDICT), "Null until there is one."),
            "reasons": described(array_of(TEXT), "Why, in sentences."),
            "recognised_by": described(
                open_enum(("kubernetes", "turnover")), "Kubernetes' revisions, or the turnover of members."
            ),
            "workload": described(nullable(TEXT), "Such as Deployment/payments; null if not known."),
            "revision_from": nullable(TEXT),
            "revision_to": nullable(TEXT),
            "began_ms": AT_MS,
            "ended_ms": described(AT_MS, "When the last member so far was replaced."),
            "steady_ms": described(nullable(AT_MS), "When the group came to rest; null: it has not."),
            "time_to_steady_ms": nullable(INTEGER),
            "members_before": nullable(COUNT),
            "members_after": nullable(COUNT),
            "members_replaced": COUNT,
            "rebalances": COUNT,
            "last_rebalance_ms": described(
                nullable(AT_MS), "When the last of them was through; null: there is none."
            ),
            "rebalances_never_completed": COUNT,
            "stopped_partition_ms": described(
                nullable(COUNT), "Stopped partition time, summed over partitions; null if of no rebalance known."
            ),
            "rebalances_of_unknown_cost": described(COUNT, "Rebalances that are missing in that."),
            "lag_peak_records": described(nullable(COUNT), "Null where no lag was sampled."),
            "lag_peak_seconds": nullable(RATIO),
            "lag_peak_at_least": described(
                FLAG, "Of some positions, or for some time, lag was not known: the peak may have been higher."
            ),
            "departures": described(map_of(COUNT), f"By cause: {', '.join(Cause)}; more may come."),
            "unclean_ends": described(COUNT, "Departures by a timeout, or killed at the end of the grace period."),
            "errors": described(
                map_of(COUNT), f"By what Kubernetes tells: oom_killed, liveness_killed, exited, {KILLED_AT_STOP}."
            ),
            "crash_loops": described(COUNT, "Places that new members left again and again."),
            "imbalance_before": described(nullable(RATIO), "The largest share of partitions, in fair ones."),
            "imbalance_after": nullable(RATIO),
            "differences": described(
                array_of(
                    object_of(
                        {
                            "measure": open_enum(("lag_peak_seconds", "stopped_partition_ms", "rebalances")),
                            "before": RATIO,
                            "now": RATIO,
                            "verdict": described(_VERDICT, "What it alone would say, for as many members."),
                            "at_least": described(FLAG, "The greater of the two is a bound: it may be more."),
                        }
                    )
                ),
                "Its measures beside those of the rollout before.",
            ),
            "compared_with": described(
                nullable(object_of({"began_ms": AT_MS, "verdict": nullable(_VERDICT)})),
                "The rollout before; null in the first that is seen.",
            ),
            "whatif": described(
                nullable(ref("rollout_costs")), "Null where it was not replayed: only the newest with a verdict is."
            ),
        },
        "A rollout of a group's workload, and the verdict on it.",
    ),
    "rollout_costs": object_of(
        {
            "today": described(
                _COST, "Replayed as it was, by the model: the same rebalances as far as it reproduces them."
            ),
            "static_membership": _COST,
            "cooperative_rebalancing": _COST,
            "untold": described(nullable(TEXT), "Why there are no numbers, or not all."),
        },
        "What a rollout would have cost under other settings.",
    ),
}
