"""The KIP-848 groups of a real broker's log, played through the model: it writes what the broker wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from agent.core.protocol.assignors import SERVER_ASSIGNORS, Assignor
from agent.simulation.groups.script import BrokerSettings
from tests.unit.core.wire.vectors import CAPTURE, needs
from tests.unit.simulation.groups.recorded import Outcome, Replay, batches

SETTINGS = BrokerSettings(consumer_assignment_interval_ms=1_000)

_AT = r"^.*\[GroupId (?P<group>\S+)\] "
_EXPIRED = re.compile(_AT + r"Member (?P<member>\S+) fenced from the group because the member session expired")
_STEP = re.compile(
    _AT + r"(?:Bumped group epoch to (?P<epoch>\d+)|Computed a new target assignment for epoch (?P<target>\d+))"
)


def _log(pattern: re.Pattern[str], group: str) -> list[re.Match[str]]:
    lines = (CAPTURE / "coordinator.log").read_text(encoding="utf-8").splitlines()
    return [found for line in lines if (found := pattern.match(line)) and found["group"] == group]


def _replayed(group: str, assignors: Mapping[str, Assignor] | None = None) -> Replay:
    # A member whose session ended has sent nothing since the last heartbeat of its that is in the log.
    last_sign = {line["member"]: 0 for line in _log(_EXPIRED, group)}
    replay = Replay(group, batches(CAPTURE / "segments")[group], SETTINGS, last_sign, assignors)
    replay.run()
    return replay


@pytest.fixture(scope="module")
def replays() -> dict[str, Replay]:
    return {group: _replayed(group) for group in ("fraud-848", "risk-848re")}


@needs(CAPTURE)
class TestCapture:
    @pytest.mark.parametrize(("group", "records"), [("fraud-848", 41), ("risk-848re", 21)])
    def test_writes_what_the_broker_wrote(self, replays: dict[str, Replay], group: str, records: int) -> None:
        outcome: Outcome = replays[group].outcome
        print(f"{group}: {outcome.matched} of {outcome.total} records, {outcome.extra} too many")
        assert (outcome.matched, outcome.total, outcome.extra, outcome.differing) == (records, records, 0, [])

    @pytest.mark.parametrize("group", ["fraud-848", "risk-848re"])
    def test_and_gives_what_the_broker_gave(self, group: str) -> None:
        """With the model's own assignor in place of the answers of the broker's."""
        assert _replayed(group, SERVER_ASSIGNORS).outcome.differing == []

    @pytest.mark.parametrize("group", ["fraud-848", "risk-848re"])
    def test_epochs_and_targets_come_in_the_order_of_the_log(self, replays: dict[str, Replay], group: str) -> None:
        logged = [
            ("epoch", int(line["epoch"])) if line["epoch"] else ("target", int(line["target"]))
            for line in _log(_STEP, group)
        ]
        assert replays[group].outcome.steps == logged

    def test_members_go_as_the_log_says(self, replays: dict[str, Replay]) -> None:
        gone = [(it.member_id, it.reason.value) for it in replays["fraud-848"].outcome.removed]
        assert gone == [
            ("9GUHnmnxSTC/x/jqZZUa0A", "member_left"),
            ("VUT88zj6Q5mYzIOucX0Ebg", "session_timeout"),
            ("rww5AsQKRLKqDgViGHSU9w", "member_left"),
        ]
        # 45 seconds after the last heartbeat that is in the log; the broker wrote it two milliseconds later.
        assert replays["fraud-848"].outcome.late_ms == [2]

    def test_a_static_member_that_steps_aside_is_still_there(self, replays: dict[str, Replay]) -> None:
        members = replays["risk-848re"].model.members
        assert {member.metadata.instance_id: member.current.epoch for member in members.values()} == {
            "risk-848re-i1": -2
        }
