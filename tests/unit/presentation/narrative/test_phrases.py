"""What a group's form says of its rebalances."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from agent.core.protocol.states import GroupType
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import Rebalanced
from agent.presentation.json_views import group_json
from agent.presentation.narrative.phrases import is_sampled, is_simple, may_have_rebalanced
from tests import examples
from tests.unit.core.shadow.histories import histories
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.made import T0

# 1-12: a group whose state is since T0, asked a moment later.
FORMS: list[tuple[str, dict[str, Any], bool]] = [
    ("1: each rebalance of a classic group ends in a state of its own time", {}, False),
    ("2: Connect's groups are classic ones", {"group_type": "connect"}, False),
    ("3: a new epoch is Assigning at first", {"group_type": "consumer", "state": "Reconciling"}, False),
    ("4: unless it was so before", {"group_type": "consumer", "state": "Assigning"}, True),
    ("5: the same of Streams", {"group_type": "streams"}, False),
    ("6: whose topology may be what it waits for all along", {"group_type": "streams", "state": "NotReady"}, True),
    ("7: a share group is Stable whatever its epoch", {"group_type": "share"}, True),
    ("8: but where it never rebalanced it did not of late", {"group_type": "share", "rebalances": 0}, False),
    ("9: a type of a later version", {"group_type": "news"}, True),
    ("10: looks see members change between two that show the same state",
     {"generation": -1, "generations_skipped": None}, True),
    ("11: nobody knows since when it is so", {"state_since_ms": -1}, True),
    ("12: it changed since then", {"state_since_ms": T0 + 1, "rebalances": 0}, True),
]  # fmt: skip


@pytest.mark.parametrize(("why", "own", "may_have"), FORMS)
def test_whether_a_form_leaves_room_for_a_rebalance(why: str, own: dict[str, Any], may_have: bool) -> None:
    assert may_have_rebalanced(m.form(**{"rebalances": 3, **own}), T0 + 1) is may_have


def test_a_group_that_only_commits_is_told_as_that_whatever_partition_it_is_in() -> None:
    form = m.form(generation=-1, members=[], coordinator_partition=None)
    assert (is_simple(form), is_sampled(form)) == (True, False)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_no_rebalance_of_a_newer_group_is_ruled_out_by_its_form(log: Any) -> None:
    """A classic group's state is since its join phase ended, which these histories place at will."""
    mirror, latest = PartitionMirror(log.partition), dict[str, int]()
    for record in log.records:
        for change in mirror.replay(record):
            if isinstance(change, Rebalanced) and change.group_type != GroupType.CLASSIC:
                latest[change.group] = change.at.timestamp_ms
        for group, at_ms in latest.items():
            view = mirror.view(group)
            assert (
                view is None or view.group_type == GroupType.CLASSIC or may_have_rebalanced(group_json(view), at_ms)
            )
