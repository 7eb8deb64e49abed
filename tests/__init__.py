"""Tests of kshadow. `unit` needs nothing but Python; `live` needs brokers, browsers, clusters, Spark or processes;
`harness` is what plays and measures; `generate` writes pages, schemas and values from the code's tables.

A package, so that `python -m tests.harness.rig` and its like run.
"""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The project."""
DATA = ROOT / "tests" / "data"
SHARED = ROOT.parent / "shared"
"""References beside the project; tests that read them skip where they are not there."""


EXAMPLES = {"quick": 5, "random": 1}
"""Of a property, by Hypothesis' profile: one in so many."""


def examples(count: int) -> int:
    """How many examples a property is tried with: half of `count`, in `make check` (profile "quick") a fifth, not
    below 10; all with HYPOTHESIS_PROFILE=random, which tries others each time.
    """
    return max(count // EXAMPLES.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 2), 10)
