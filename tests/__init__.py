"""Tests of kshadow. `unit` needs nothing but Python; `live` needs brokers, browsers, clusters, Spark or processes;
`harness` is what plays and measures; `generate` writes pages, schemas and values from the code's tables.

A package, so that `python -m tests.harness.rig` and its like run.
"""

import os
import random
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The project."""
DATA = ROOT / "tests" / "data"
SHARED = ROOT.parent / "shared"
"""References beside the project; tests that read them skip where they are not there."""

IS_RANDOM = os.environ.get("HYPOTHESIS_PROFILE") == "random"
"""Whether tests look for examples and plays that none has tried; CI tries the same each time."""


def others_thorough(every: Iterable[str], *these: str) -> list[object]:
    """A test's parameters: `these` in each run, the others of `every` in `make thorough` alone."""
    import pytest  # programs that tests start have no use for it

    return [it if it in these else pytest.param(it, marks=pytest.mark.thorough) for it in every]


def seed() -> int:
    """Of random plays: `KSHADOW_SEED`, or 1; another each time with HYPOTHESIS_PROFILE=random."""
    drawn = random.SystemRandom().randrange(10**6) if IS_RANDOM else 1
    return int(os.environ.get("KSHADOW_SEED") or drawn)


def examples(count: int) -> int:
    """How many examples a property is tried with: a fifth of `count`, not below 10; all with
    HYPOTHESIS_PROFILE=random, which tries others each time.
    """
    return count if IS_RANDOM else max(count // 5, 10)
