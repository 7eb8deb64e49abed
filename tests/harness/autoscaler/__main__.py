"""`python -m tests.harness.autoscaler`: rebalances, lag and pods under an autoscaler that feeds itself, and under
`helm/examples/keda`, for many seeds; and what `kshadow whatif` says of the former's history.

Ends with 1 unless the example has at most half the rebalances at no more lag (95th percentile), over all seeds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import yaml

from agent.core.diagnosis.api import Finding
from agent.core.inference.origins import Origin, OriginKind
from agent.core.protocol.hashing import OFFSETS_PARTITIONS, partition_for_group
from agent.core.records import RawRecord
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.views import Member
from agent.persistence.cluster_state import ClusterState
from agent.simulation.generator.group_history import generate_group
from agent.simulation.generator.histories import merge_writes
from agent.simulation.generator.plans import GroupPlan
from agent.simulation.generator.scenario_kinds import Scenario
from agent.simulation.generator.seeded_random import SeededRandom
from agent.simulation.generator.topics import new_topic
from agent.simulation.groups.script import Script
from agent.simulation.whatif.recorder import GroupRecorder
from agent.simulation.whatif.rollout_costs import rollout_costs
from analyzers.registry import select_analyzers
from tests import ROOT
from tests.harness.autoscaler.loop import BEGIN_MS, GROUP, START_MS, TOPIC, Autoscaler, Outcome, play
from tests.unit.simulation.generator.making import runs

FEEDING = Autoscaler(lag_threshold=150, least=2, most=12, stabilization_s=0)
"""A threshold that one rebalance exceeds, and down as soon as lag is gone."""
SHARE = 0.95


def example() -> Autoscaler:
    """`helm/examples/keda/scaledobject.yaml`."""
    spec = yaml.safe_load((ROOT / "helm/examples/keda/scaledobject.yaml").read_text(encoding="utf-8"))["spec"]
    down = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
    return Autoscaler(
        lag_threshold=int(spec["triggers"][0]["metadata"]["lagThreshold"]),
        least=spec["minReplicaCount"],
        most=spec["maxReplicaCount"],
        stabilization_s=down["stabilizationWindowSeconds"],
    )


def records(script: Script, seed: int) -> Iterator[RawRecord]:
    """The topic's records of the group that was scaled: what a broker would have written."""
    random = SeededRandom("autoscaler-records", seed)
    topic = new_topic(TOPIC, script.partitions[TOPIC], random)
    plan = GroupPlan(GROUP, "scaling", 12, (topic,), ("range",), False, 45_000, 5_000, random)
    written, _ = generate_group(plan, script, Scenario(script.steps))
    return merge_writes(partition_for_group(GROUP, OFFSETS_PARTITIONS), written, START_MS)


class ByAutoscaler:
    """Tells what Kubernetes would: who came and went was scaled, by a HorizontalPodAutoscaler."""

    is_behind = False

    def departure_origin(self, member: Member, departed_ms: int | None, shown_ms: int) -> Origin | None:
        """Scaled down."""
        return _origin(OriginKind.SCALED_DOWN, member, shown_ms)

    def join_origin(self, member: Member, shown_ms: int) -> Origin | None:
        """Scaled up, but for those that the group began with."""
        return _origin(OriginKind.SCALED_UP, member, shown_ms) if shown_ms > START_MS + BEGIN_MS else None


def _origin(kind: OriginKind, member: Member, at_ms: int) -> Origin:
    return Origin(
        kind=str(kind),
        at_ms=at_ms,
        namespace="shop",
        pod=member.client_id,
        container=None,
        node=None,
        workload=f"StatefulSet/{GROUP}",
        revision=None,
        exit_code=None,
        message=f"StatefulSet/{GROUP} was scaled, by HorizontalPodAutoscaler `keda-hpa-{GROUP}`",
    )


def told(outcome: Outcome, seed: int) -> Iterator[str]:
    """What the finding says of that history, and what the what-if model makes of it."""
    batches = list(runs(list(records(outcome.script, seed))))
    state = ClusterState(select_analyzers(["autoscaler_storm"]), origin_source=ByAutoscaler())
    findings = [it for batch in batches for it in state.replay_batch(batch) if isinstance(it, Finding)]
    yield f"finding: {findings[-1].summary} {findings[-1].advice}" if findings else "finding: none"
    recorder, mirror = GroupRecorder(GROUP), PartitionMirror(batches[0].partition)
    for batch in batches:
        recorder.replay_batch(mirror, batch)
    costs = rollout_costs(recorder.recording(), START_MS + BEGIN_MS, outcome.script.until_ms)
    for name in ("today", "cooperative_rebalancing"):
        if (cost := costs[name]) is not None:
            stopped_s = cost["stopped_partition_ms"] / 1000
            yield f"what-if, {name}: {cost['rebalances']} rebalances, {stopped_s:.0f} s stopped"
    if costs["untold"] is not None:
        yield f"what-if: {costs['untold']}"


def main() -> int:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", nargs=2, type=int, default=(1000, 1009), metavar=("FIRST", "END"))
    parser.add_argument("--minutes", type=int, default=40)
    options = parser.parse_args()
    fewer = no_more = 0
    sums, pods = [0, 0], [0.0, 0.0]
    for seed in range(*options.seeds):
        feeding, calm = (play(it, seed, options.minutes) for it in (FEEDING, example()))
        sums = [sums[0] + feeding.rebalances, sums[1] + calm.rebalances]
        pods = [pods[0] + feeding.mean_members, pods[1] + calm.mean_members]
        fewer += 2 * calm.rebalances <= feeding.rebalances
        no_more += calm.lag_percentile(SHARE) <= feeding.lag_percentile(SHARE)
        said = ", then ".join(
            f"{it.rebalances} rebalances, {it.stopped_partition_ms / 1000:.0f} s stopped, "
            f"lag {it.lag_percentile(SHARE):.0f}, {it.mean_members:.1f} pods"
            for it in (feeding, calm)
        )
        print(f"seed {seed}: {said}", flush=True)
        if seed == options.seeds[0]:
            print(*told(feeding, seed), sep="\n", flush=True)
    seeds = len(range(*options.seeds))
    print(f"{pods[0] / seeds:.1f} pods on average, then {pods[1] / seeds:.1f}")
    print(f"{sums[0]} rebalances, then {sums[1]}; at most half in {fewer} of {seeds}; no more lag in {no_more}")
    return 0 if fewer == no_more == seeds else 1


if __name__ == "__main__":
    sys.exit(main())
