"""`--broker-log` at the prompt."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.running import SEGMENTS, kshadow, lines

KAFKA = "[GroupCoordinator id=1 topic=__consumer_offsets partition=4]"


def rebalances(*arguments: object) -> list[dict[str, Any]]:
    result = kshadow("replay", SEGMENTS, *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return [event for event in map(json.loads, lines(result)) if event["type"] == "rebalance"]


def line(at_ms: int, text: str) -> str:
    time = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
    return f"[{time}] INFO {KAFKA} {text} (org.apache.kafka.coordinator.group.GroupMetadataManager)\n"


@pytest.fixture
def departure() -> dict[str, Any]:
    """The first rebalance in which a classic group lost a member."""
    return next(it for it in rebalances() if it["left"] and it["group_type"] == "classic")


@pytest.fixture
def log(tmp_path: Path, departure: dict[str, Any]) -> Path:
    """A broker's log that tells of it otherwise than the topic."""
    group, member = departure["group"], departure["left"][0]["member_id"]
    end_ms = departure["at_ms"] - (departure["sync_ms"] or 0)
    reason = f"explicit `LeaveGroup` request for ({member}) members."
    asked = f"[Group {group}] Member {member} has left group through explicit `LeaveGroup` request"
    path = tmp_path / "server.log"
    path.write_text(
        line(end_ms - 1500, f"{asked}; client reason: consumer poll timeout has expired.")
        + line(
            end_ms - 1500,
            f"Preparing to rebalance group {group} in state PreparingRebalance with old generation "
            f"{departure['previous_generation']} (reason: {reason}).",
        )
        + line(end_ms, f"Stabilized group {group} generation {departure['generation']} with 1 members.")
    )
    return path


def test_replay_takes_the_brokers_word(departure: dict[str, Any], log: Path) -> None:
    assert departure["observed"] is False
    found = rebalances("--broker-log", log)
    (told,) = (it for it in found if it["event_id"] == departure["event_id"])
    assert (told["cause"], told["confidence"]) == ("poll_timeout", 1.0)
    assert (told["observed"], told["join_ms"]) == (True, 1500)
    assert told["left"][0]["cause"] == "poll_timeout"
    assert told["evidence"][0]["kind"] == "broker_log"
    assert "explicit `LeaveGroup` request" in told["evidence"][0]["reason"]
    assert [it["observed"] for it in found].count(True) == 1, "of the others the log says nothing"
    assert {name: told[name] for name in ("joined", "members", "sync_ms")} == {
        name: departure[name] for name in ("joined", "members", "sync_ms")
    }
    # The variable's paths are parted as those of $PATH.
    result = kshadow("replay", SEGMENTS, env={"KSHADOW_BROKER_LOG": f"{log}:{log.parent}"})
    assert [it for it in map(json.loads, lines(result)) if it["type"] == "rebalance"] == found
    table = kshadow("replay", SEGMENTS, "--broker-log", log, "-o", "table")
    assert table.stdout.count("(observed: poll_timeout)") == 1
    assert "(inferred: " in table.stdout


def test_another_time_zone_is_noticed(log: Path) -> None:
    result = kshadow("replay", SEGMENTS, "--broker-log", log, "--broker-log-timezone", "-03:00")
    assert result.exit_code == 0
    assert "its times are 3 h 0 min after those of the records" in result.stderr
    events = map(json.loads, lines(result))
    assert not any(event["observed"] for event in events if event["type"] == "rebalance")


@pytest.mark.parametrize(
    "command", [["replay", str(SEGMENTS)], ["run", "--bootstrap-server", "localhost:1", "--listen", "127.0.0.1:0"]]
)
def test_wrong_usage(command: list[str], tmp_path: Path) -> None:
    result = kshadow(*command, "--broker-log", tmp_path / "nothing")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "expected a broker's log that can be read: No such file or directory" in result.stderr
    result = kshadow(*command, "--broker-log", "x" * 300)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "expected a broker's log that can be read: File name too long" in result.stderr
    (tmp_path / "server.log").touch()
    result = kshadow(*command, "--broker-log", tmp_path, "--broker-log-timezone", "Mars/Olympus")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "time zone: expected UTC, local, an offset such as +02:00" in result.stderr


def test_an_agent_that_the_environment_names_is_not_asked_beside_files(departure: dict[str, Any], log: Path) -> None:
    arguments = ["explain", departure["group"], "--from", SEGMENTS, "--broker-log", log, "--no-whatif"]
    files, both = (kshadow(*arguments, env=it) for it in ({}, {"KSHADOW_AGENT": "http://127.0.0.1:1"}))
    assert (both.exit_code, both.stdout, both.stderr) == (files.exit_code, files.stdout, files.stderr)
    assert (files.exit_code, files.stderr) == (0, "")


def test_words_of_strangers_do_not_reach_the_terminal_raw(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(
        line(1_795_000_000_000, "[GroupId g\x1b[31m] Member \x07 did what nobody knows.")
    )
    result = kshadow("replay", SEGMENTS, "--broker-log", tmp_path)
    assert result.exit_code == 0
    assert "\\x1b[31m" in result.stderr
    assert not set("\x1b\x07") & set(result.stderr + result.stdout)
