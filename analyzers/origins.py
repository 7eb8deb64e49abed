"""Origins in findings: what happened to the pods of the members that were lost, and what that says to do.

Without `run --kubernetes` nothing is known and conditions stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from agent.core.inference.origin_advice import origin_advice
from agent.core.inference.origins import Origin, origin_words
from analyzers.api import Condition

MAX_ADVICES = 2
"""Advice on the most frequent kinds: what comes after is rare among what was lost."""


def with_origins(
    condition: Condition, origins: Sequence[Origin], lost: int, *, without_goodbye: bool, explains: bool
) -> Condition:
    """The condition with the `origins` that are known of `lost` members, in their order in time.

    `without_goodbye`: see `origin_advice`. `explains`: whether an origin is why the members were lost, so that where
    all are known nothing is left to look for.
    """
    if not origins:
        return condition
    kinds = Counter(it.kind for it in origins)
    words = Counter(origin_words(it.kind, it.exit_code) for it in origins)
    listed = ", ".join(f"{said} ({number})" for said, number in words.most_common(3))
    advices = [
        advice
        for kind, _ in kinds.most_common()
        if (advice := origin_advice([it for it in origins if it.kind == kind], without_goodbye=without_goodbye))
    ][:MAX_ADVICES]
    if not (advices and explains and len(origins) >= lost):
        advices.append(condition.advice)
    return replace(
        condition,
        summary=f"{condition.summary.removesuffix('.')}; by Kubernetes: {listed}.",
        advice=" ".join(advices),
        numbers={**condition.numbers, "origins": dict(sorted(kinds.items()))},
    )
