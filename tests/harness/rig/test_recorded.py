"""Groups of real clients on real brokers that were told wrong with confidence: `tests/data/causes` has their records.

The truth is what the broker's log said of each generation, and what was done to the member. An answer with confidence
is right; one without may be another.
"""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.inference.external_evidence import KnownSessions
from agent.core.inference.session_settings import session_settings
from agent.runtime.offline import load
from tests import ROOT
from tests.harness.rig.accuracy import SURE
from tests.harness.rig.settings import BROKER_CONFIG

LEFT, DIED, REMOVED, CHANGED = "member_left", "session_timeout", "admin_removed", "subscription_changed"

# File, why, and by generation (epoch) the cause; members that went did so in the same way.
RECORDED: list[tuple[str, str, dict[int, str]]] = [
    ("transactional", "commits in transactions renew no session: it ran from the last heartbeat",
     {4: LEFT, 6: DIED, 8: DIED, 10: LEFT, 12: LEFT, 13: LEFT, 14: LEFT}),
    ("static_back", "static members came back as their sessions had run out, and new ones with them",
     {3: DIED, 4: DIED, 5: DIED, 6: DIED}),
    ("static_assignor", "a static member came back with another assignor", {2: CHANGED, 3: DIED}),
    ("kip848_static_removed", "an admin removed static members, which leave for a restart as they close",
     {5: REMOVED, 7: REMOVED, 9: LEFT, 10: DIED, 11: DIED}),
    ("slow_work", "members closed while the others were at work for longer than a session",
     {3: LEFT, 5: LEFT, 7: LEFT}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "why", "truth"), RECORDED, ids=[it[0] for it in RECORDED])
def test_what_is_told_with_confidence_is_right(name: str, why: str, truth: dict[int, str]) -> None:
    path = str(ROOT / "tests" / "data" / "causes" / f"{name}.ndjson.gz")
    witness = KnownSessions(session_settings(BROKER_CONFIG))
    rebalances: dict[int, dict[str, Any]] = {
        it["generation"]: it
        for it in load([path], on_problem=pytest.fail, witness=witness).events()
        if it["type"] == "rebalance"
    }
    told = [(number, (rebalances[number], *rebalances[number]["left"])) for number in truth]
    sure = [(number, it["cause"]) for number, answers in told for it in answers if it["confidence"] >= SURE]
    assert sure == [(number, truth[number]) for number, _ in sure], why
