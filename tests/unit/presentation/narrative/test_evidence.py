"""Evidence in sentences: every kind there is, and any there may come to be."""

from __future__ import annotations

from pathlib import Path
from re import findall
from typing import Any

import pytest

from agent.presentation.narrative.events import Departure, parse_rebalance
from agent.presentation.narrative.evidence import (
    _WRITERS,
    MAX_SENTENCES,
    departure_evidence,
    evidence_sentences,
    why_unknown,
)
from tests import ROOT
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.made import T0

JOIN = "the join phase ended"


def departed(cause: str, *gaps: dict[str, Any]) -> list[Departure]:
    names = [item["member_id"].removesuffix("-1") for item in gaps]
    left = [m.gone(name, cause) for name in dict.fromkeys(names)]
    return list(parse_rebalance(m.rebalance(2, cause, left=left, evidence=list(gaps))).left)


# 1-15: why a member is believed to have gone so.
DEPARTURES = [
    (
        departed("session_timeout", m.gap("a", 10_400)),
        [
            f"Its last commit came 10.4 s before {JOIN}, and session.timeout.ms is 10.0 s; until then it had "
            f"committed "
            "about every 1.0 s."
        ],
    ),  # 1
    (
        departed("session_timeout", m.gap("a", 10_000), m.gap("b", 11_200, commits_every_ms=None)),
        [
            f"Each one's last commit came 10.0 to 11.2 s before {JOIN}, and session.timeout.ms is 10.0 s; until then "
            "each had committed about every 1.0 s."
        ],
    ),  # 2
    (
        departed("session_timeout", m.gap("a", 41_000, session_timeout_ms=None)),
        [
            (
                "Its last commit came 41.0 s before the epoch was raised; until then it had committed "
                "about every 1.0 s. Too short for max.poll.interval.ms (5 min) to have expired."
            )
        ],
    ),  # 3: KIP-848
    (
        departed("session_timeout", m.gap("a", 10_400, session_timeout_ms=None, group_session_timeout_ms=10_000)),
        [
            "Its last commit came 10.4 s before the epoch was raised, and the group's session timeout is 10.0 s; "
            "until then it had committed about every 1.0 s."
        ],
    ),  # 3 a: where the brokers say it
    (
        departed("session_timeout", m.gap("a", 30_000, coordinator_changed=True)),
        [
            f"Its last commit came 30.0 s before {JOIN}, and session.timeout.ms is 10.0 s, begun anew as a "
            "coordinator took over the group; until then it had committed about every 1.0 s."
        ],
    ),  # 3 c: its coordinator was away
    (
        departed("session_timeout", m.gap("a", 75_000, session_timeout_ms=None, coordinator_changed=True)),
        [
            "Its last commit came 1 min 15 s before the epoch was raised, and its session was begun anew as a "
            "coordinator took over the group; until then it had committed about every 1.0 s."
        ],
    ),  # 3 d
    (
        departed("member_left", m.gap("a", 50, session_timeout_ms=None, group_session_timeout_ms=10_000)),
        [
            "Its last commit came 50 ms before the epoch was raised: the group's session timeout (10.0 s) had not "
            "expired; until then it had committed about every 1.0 s."
        ],
    ),  # 3 b
    (
        departed("session_timeout", m.gap("a", 41_000, session_timeout_ms=None, rebalance_timeout_ms=None)),
        [
            (
                "Its last commit came 41.0 s before the epoch was raised; until then it had committed "
                "about every 1.0 s. Too short for max.poll.interval.ms to have expired."
            )
        ],
    ),  # 4
    (
        departed("poll_timeout", m.gap("a", 299_000, commits_every_ms=None)),
        [
            f"Its last commit came 4 min 59 s before {JOIN}, and max.poll.interval.ms is 5 min, counted from its "
            f"last "
            "poll."
        ],
    ),  # 5
    (
        departed("member_left", m.gap("a", 20, commits_every_ms=None)),
        [("Its last commit came 20 ms before the join phase ended: session.timeout.ms (10.0 s) had not expired.")],
    ),  # 6
    (
        departed("member_left", m.gap("a", 20, commits_every_ms=None, session_timeout_ms=None)),
        ["Its last commit came 20 ms before the epoch was raised."],
    ),  # 7
    (
        departed("new_cause", m.gap("a", 20, commits_every_ms=None)),
        [f"Its last commit came 20 ms before {JOIN}."],
    ),  # 8
    (
        departed("member_left", m.gap("a", None, generation_lasted_ms=2_000)),
        ["It had not committed; the generation lasted 2.0 s, and session.timeout.ms is 10.0 s."],
    ),  # 9
    (
        departed(
            "member_left",
            m.gap("a", 20, commits_every_ms=None),
            m.gap("b", None, generation_lasted_ms=2_000),
        ),
        [
            ("Its last commit came 20 ms before the join phase ended: session.timeout.ms (10.0 s) had not expired."),
            "Some had not committed; the generation lasted 2.0 s, and session.timeout.ms is 10.0 s.",
        ],
    ),  # 10
    (
        departed("session_timeout", {"kind": "static_member_expired", "member_id": "a-1"}),
        [("It had left for a restart (member epoch -2) and did not join again within its session timeout.")],
    ),  # 11
    (
        departed(
            "member_left",
            m.gap("a", 20, commits_every_ms=None),
            m.gap("b", 11_000, commits_every_ms=None, session_timeout_ms=None),
        ),
        [
            "Of members of the classic protocol, the last commit of each came 20 ms before the join phase ended: "
            "session.timeout.ms (10.0 s) had not expired.",
            "Of the others, the last commit of each came 11.0 s before the epoch was raised.",
        ],
    ),  # 12: a group that changed its protocol; 11 s are more than the session of the other
    (
        departed("session_timeout", *(m.gap(it, None, generation_lasted_ms=10_000) for it in "ab")),
        ["None had committed; the generation lasted 10.0 s, and session.timeout.ms is 10.0 s."],
    ),  # 13: a timeout that expired is not told to have had no time to
    (
        departed("poll_timeout", m.gap("a", None, generation_lasted_ms=301_000)),
        ["It had not committed; the generation lasted 5 min 1 s, and max.poll.interval.ms is 5 min."],
    ),  # 14
    (
        departed("session_timeout", m.gap("a", None, generation_lasted_ms=46_000, session_timeout_ms=None)),
        ["It had not committed; the generation lasted 46.0 s."],
    ),  # 15: KIP-848
    (
        departed("admin_removed", {"kind": "static_member_away", "member_id": "a-1", "away_ms": 3_000}),
        ["It had left for a restart (member epoch -2), and was removed 3.0 s later."],
    ),  # 16
]


@pytest.mark.parametrize(("gone", "said"), DEPARTURES)
def test_departures(gone: list[Departure], said: list[str]) -> None:
    assert departure_evidence(gone) == said


# 1-7: why it is not known.
UNKNOWN = [
    ([m.gap("a", None)], "classic", "nothing was committed of what was held, so there is no gap to measure"),  # 1
    ([m.gap("a", None)], "share", "share groups commit nothing to this topic, so there is no gap to measure"),  # 2
    (
        [m.gap("a", None)],
        "streams",
        "nothing was committed of the topics that its topology names, so there is no gap to measure",
    ),  # 7
    (
        [m.gap("a", 12_000)],
        "classic",
        (
            "a last commit 12.0 s before, which fits neither a LeaveGroup nor a timeout "
            "(session.timeout.ms 10.0 s, max.poll.interval.ms 5 min)"
        ),
    ),  # 3
    (
        [m.gap("a", 12_000, candidates=["member_left", "session_timeout"], session_timeout_ms=None)],
        "consumer",
        "a last commit 12.0 s before, which fits member_left and session_timeout (max.poll.interval.ms 5 min)",
    ),  # 4
    (
        [m.gap("a", 12_000, session_timeout_ms=None, rebalance_timeout_ms=None)],
        "consumer",
        "a last commit 12.0 s before, which fits neither a LeaveGroup nor a timeout",
    ),  # 5
    ([{"kind": "news", "member_id": "a-1"}], "classic", "the history holds no evidence of it"),  # 6
    (
        [
            m.gap(
                "a",
                8,
                candidates=["member_left", "session_timeout"],
                session_timeout_ms=None,
                rebalance_timeout_ms=None,
                nothing_written_ms=60_000,
            )
        ],
        "consumer",
        "a last commit 8 ms before, which fits member_left and session_timeout (nothing written for 1 min, as where "
        "a broker stands still)",
    ),  # 7
]


@pytest.mark.parametrize(("evidence", "group_type", "said"), UNKNOWN)
def test_unknown(evidence: list[dict[str, Any]], group_type: str, said: str) -> None:
    assert why_unknown(departed("unknown_departure", *evidence)[0], group_type) == said


# 1-22: each other kind, and those that no version has had yet.
KINDS: list[tuple[dict[str, Any], list[str]]] = [
    ({"kind": "joined", "members": 1}, []),  # 1
    ({"kind": "withheld", "partitions": 1}, ["The rebalance before had left 1 partition unassigned."]),  # 2
    (
        {"kind": "subscription", "member_id": "a", "added": ["x", "y"], "removed": ["z"]},
        ["`a` added `x` and `y` and dropped `z` in its subscription."],
    ),  # 3
    (
        {"kind": "partitions", "topics": {"t": [4, 7], "u": [2, 0]}},
        ["`t` went from 4 to 7 partitions and `u` went from 2 to 0 partitions."],
    ),  # 4
    (
        {"kind": "assignor", "before": "range", "after": "roundrobin"},
        ["A static member joined again with other assignors: from `range` to `roundrobin`."],
    ),  # 4 c
    ({"kind": "assignor"}, ["Also: assignor."]),  # 4 d
    (
        {"kind": "partitions_initialized", "partitions": 4},
        ["Members could be given 4 partitions more: the share group's state of these had been made."],
    ),  # 4 a
    ({"kind": "partitions_initialized"}, ["Also: partitions initialized."]),  # 4 b
    ({"kind": "migration", "to": "classic"}, ["The group changed from KIP-848 to the classic protocol."]),  # 5
    (
        {"kind": "migration", "to": "consumer"},
        ["The group changed from the classic protocol to KIP-848."],
    ),  # 6
    (
        {"kind": "static_member_replaced", "gap_ms": 2_000},
        [("A static member joined again 2.0 s after its last commit; only a removed one triggers a rebalance.")],
    ),  # 7
    ({"kind": "news"}, ["Also: news."]),  # 8
    (
        {
            "kind": "admin_api",
            "observed": True,
            "state": "PreparingRebalance",
            "seen_ms": T0,
            "for_ms": 250,
            "x": None,
        },
        ["Seen: admin api (state PreparingRebalance, seen_ms 2026-09-21 14:13:20 UTC, for_ms 250 ms)."],
    ),  # 9
    ({"kind": "broker_log", "observed": True, "line": "x" * 500}, [f"Seen: broker log (line {'x' * 199}…)."]),  # 10
    ({"a": [1, {"b": 2}]}, ["Also: evidence (a [1, {'b': 2}])."]),  # 11: without a kind
    ({"kind": ["x"]}, ["Also: ['x']."]),  # 12: whose kind is none
    ({"kind": "withheld", "partitions": "9"}, ["Also: withheld (partitions 9)."]),  # 13: fields of other types
    ({"kind": "subscription", "added": None, "removed": []}, ["Also: subscription (removed [])."]),  # 14
    ({"kind": "subscription", "added": [], "removed": []}, ["Also: subscription (added [], removed [])."]),  # 15
    ({"kind": "partitions", "topics": {"t": 4}}, ["Also: partitions (topics {'t': 4})."]),  # 16
    ({"kind": "static_member_replaced", "gap_ms": True}, ["Also: static member replaced (gap_ms True)."]),  # 17
    ({"kind": "partitions", "topics": {}}, ["Also: partitions (topics {})."]),  # 18
    (
        {"kind": "broker_log", "at_ms": T0, "reason": "removing member a on heartbeat expiration"},
        ["The broker's log, at 14:13:20: “removing member a on heartbeat expiration”."],
    ),  # 19
    ({"kind": "broker_log", "at_ms": T0}, ["Also: broker log (at_ms 2026-09-21 14:13:20 UTC)."]),  # 20
    (
        {"kind": "admin_api", "state": "PreparingRebalance", "began_ms": T0, "error_ms": 180},
        ["The Admin API saw the join phase begin at 14:13:20, to within 180 ms."],
    ),  # 21
    ({"kind": "admin_api", "error_ms": 180}, ["Also: admin api (error_ms 180 ms)."]),  # 22
]


@pytest.mark.parametrize(("item", "said"), KINDS)
def test_kinds(item: dict[str, Any], said: list[str]) -> None:
    assert evidence_sentences([item]) == said


def test_much_of_one_kind_is_little() -> None:
    many = [{"kind": "withheld", "partitions": number} for number in range(20)]
    assert len(evidence_sentences(many)) == MAX_SENTENCES + 1
    assert evidence_sentences(many)[-1] == "And 17 more like these."
    assert len(evidence_sentences([{"kind": "withheld", "partitions": 3}] * 20)) == 1
    gaps = [{"kind": "static_member_replaced", "gap_ms": number} for number in (2_000, 3_000)]
    assert "joined again 2.0 to 3.0 s after" in evidence_sentences(gaps)[0]


def test_every_kind_of_the_mirror_has_its_words() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in Path(ROOT, "agent", "core").rglob("*.py"))
    kinds = set(findall(r'"kind": "(\w+)"', text))
    assert kinds <= set(_WRITERS), "a kind without words is shown with its fields; better words go here"
    assert len(kinds) > 10
