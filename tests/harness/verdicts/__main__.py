"""`python -m tests.harness.verdicts`: verdicts on five kinds of rollout by the simulation, for many seeds.

`--live`: on an embedded broker, with real clients.

Ends with 1 if one is not as it should be, and names its seed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from agent.presentation.rollouts.rollout_list import rollouts_json
from tests.harness.verdicts.stories import GROUP, START_MS, STORIES, UNTIL_MS, events


def main() -> int:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", nargs=2, type=int, default=(1000, 1100), metavar=("FIRST", "END"))
    parser.add_argument("--live", action="store_true", help="on a broker, with real clients (four minutes)")
    parser.add_argument("--apart", type=int, metavar="SECONDS", help="between the deploys; 25 minutes unless told")
    options = parser.parse_args()
    if options.live:
        from tests.harness.verdicts.live import play

        return 1 if play() else 0
    apart_ms = None if options.apart is None else 1000 * options.apart
    wrong = 0
    for name, story in STORIES.items():
        told: Counter[str] = Counter()
        for seed in range(*options.seeds):
            rollouts = rollouts_json(GROUP, events(story, seed, apart_ms), START_MS + UNTIL_MS)
            verdicts = [it["verdict"] for it in rollouts]
            told[", ".join(map(str, verdicts))] += 1
            if verdicts != ["same", story.expected]:
                wrong += 1
                print(f"{name}, seed {seed}: expected same, {story.expected}, got {', '.join(map(str, verdicts))}")
        print(f"{name:20} {story.expected:8} {dict(told)}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
