"""`kshadow whatif`: from files to a table, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from agent.kafka.writer.ndjson import write_ndjson
from agent.simulation.whatif.changes import CHANGES
from tests.unit.cli.hostile import BOLD
from tests.unit.cli.running import SEGMENTS, kshadow, lines, on_terminal
from tests.unit.core.shadow import build as b
from tests.unit.simulation.whatif.made import History, rolling_restart, shared_out
from tests.unit.simulation.whatif.test_comparison import crashes


def written(path: Path, history: History) -> Path:
    """The history as a file."""
    write_ndjson(history.records, path)
    return path


@pytest.fixture
def restarts(tmp_path: Path) -> Path:
    return written(tmp_path / "restarts.ndjson", rolling_restart(3))


def test_the_standard_table(restarts: Path) -> None:
    result = kshadow("whatif", "orders", "--from", restarts)
    assert (result.exit_code, result.stderr) == (0, "")
    said = lines(result)
    assert said[0].startswith("`orders`: 8 generations of 3 clients between ")
    assert said[1] == "The replay under today's settings reproduces the log: 8 generations with the same members."
    heading = said.index("")
    assert said[heading + 1].split("  ")[0] == "SETTING"
    table = [row.split("  ")[0] for row in said[heading + 2 : said.index("", heading + 1)]]
    assert table[:2] == ["today's settings", "static membership"]
    assert "What would have helped most" in said
    assert "Assumptions" in said


def test_a_row_has_its_numbers(restarts: Path) -> None:
    rows = lines(kshadow("whatif", "orders", "--from", restarts, "--static"))
    today, static = (next(row for row in rows if row.startswith(it)) for it in ("today's", "static"))
    assert today.split() == ["today's", "settings", "8", "9.0", "9.0", "0.0", "0.0", "-", "-"]
    assert static.split()[2:6] == ["2", "54.0", "0.0", "54.0"]
    assert static.endswith("6 rebalances, -500 %"), "the log has another stopped time, so no seconds are told"


@pytest.mark.parametrize("output", ["json", "ndjson", "yaml"])
def test_forms(restarts: Path, output: str) -> None:
    result = kshadow("whatif", "orders", "--from", restarts, "--static", "-o", output)
    form = yaml.safe_load(result.stdout) if output == "yaml" else json.loads(result.stdout)
    assert list(form) == [
        "group",
        "since_ms",
        "until_ms",
        "reproduced",
        "settings",
        "not_played",
        "advice",
        "assumptions",
    ]
    assert (form["group"], form["since_ms"]) == ("orders", b.T0)
    assert form["reproduced"]["exact"] is True
    assert (form["reproduced"]["generations"], form["reproduced"]["matched"]) == (8, 8)
    assert [(it["setting"], it["rebalances"]) for it in form["settings"]] == [
        ("today's settings", 8),
        ("static membership", 2),
    ]
    assert form["settings"][1]["saved_rebalances"] == 6


def settings(path: Path, *options: str) -> list[str]:
    form = json.loads(kshadow("whatif", "orders", "--from", path, "-o", "json", *options).stdout)
    return [it["setting"] for it in (*form["settings"], *form["not_played"])][1:]


def test_options_are_tried_together_and_repeated_ones_in_turn(restarts: Path) -> None:
    assert settings(restarts, "--static", "--session-timeout", "30s", "--session-timeout", "1m30s") == [
        "static membership, session timeout 30 s",
        "static membership, session timeout 1 min 30 s",
    ]
    assert settings(restarts, "--assignor", "roundrobin", "--initial-delay", "500ms", "--initial-delay", "0s") == [
        "roundrobin assignor, initial delay 500 ms",
        "roundrobin assignor, initial delay 0 s",
    ]
    assert settings(restarts, "--protocol", "consumer") == ["KIP-848"]


@pytest.mark.parametrize("name", CHANGES)
def test_every_setting_has_its_option(restarts: Path, name: str) -> None:
    change = CHANGES[name]
    value = {"flag": [], "duration": ["4s"], "choice": list(change.choices[:1])}[change.kind]
    assert settings(restarts, f"--{name}", *value) == [change.label(value[0] if change.choices else 4_000)]


def test_what_the_log_does_not_tell_can_be_said(restarts: Path) -> None:
    options = ("--broker-initial-delay", "0s", "--client-heartbeat-interval", "3s")
    said = kshadow("whatif", "orders", "--from", restarts, *options).stdout
    assert "every 3 s (from the log or the command line)" in said
    assert "wait 0 s for more members of an empty group (from the log or the command line)" in said


@pytest.mark.parametrize(
    ("told", "session_ms", "said"),
    [
        ((), 45_000, "session timeout is 45 s and the heartbeat interval 5 s (assumed: Kafka's defaults)"),
        (
            ("--broker-config", "group.consumer.session.timeout.ms=10000"),
            10_000,
            "session timeout is 10 s and the heartbeat interval 5 s (from the brokers or the command line)",
        ),
    ],
)
def test_with_kip_848_the_session_is_the_brokers(
    tmp_path: Path, told: tuple[str, ...], session_ms: int, said: str
) -> None:
    path = written(tmp_path / "crashes.ndjson", crashes())
    result = kshadow("whatif", "orders", "--from", path, "--protocol", "consumer", "-o", "json", *told)
    form = json.loads(result.stdout)
    assert session_ms - 5_000 <= form["settings"][1]["detection_max_ms"] <= session_ms
    assert form["assumptions"][-1] == f"With KIP-848 the {said}, unless others are tried."


def test_a_range(restarts: Path) -> None:
    since, until = b.T0 + 70_000, b.T0 + 150_000
    result = kshadow("whatif", "orders", "--from", restarts, "--since", since, "--until", until, "-o", "json")
    form = json.loads(result.stdout)
    assert (form["since_ms"], form["until_ms"]) == (since, until)
    assert form["reproduced"]["generations"] == 3, "one came back, another went and came back"
    nothing = kshadow("whatif", "orders", "--from", restarts, "--until", b.T0 - 1)
    assert (nothing.exit_code, nothing.stdout) == (1, "")
    assert nothing.stderr == "Error: 'orders': the log shows no member of it in this time\n"


def test_one_that_is_not_exact_says_so_first(tmp_path: Path) -> None:
    history = History()
    history.at(0, *shared_out(["a-1", "b-1"]))
    history.at(30_000, *shared_out(["a-1", "c-1"]), same=True)
    said = lines(kshadow("whatif", "orders", "--from", written(tmp_path / "odd.ndjson", history)))
    assert "differs from the log: it reproduces 1 of 1 generation and adds 1." in said[1]


def test_only_the_latest_of_several_lives_is_replayed(tmp_path: Path) -> None:
    history = rolling_restart(2)
    history.add(b.no_classic_group(), b.new_group())
    history.generation = 0
    history.at(500_000, *shared_out(["z-1"]))
    result = kshadow("whatif", "orders", "--from", written(tmp_path / "two.ndjson", history))
    assert result.exit_code == 0
    assert "1 generation of 1 client" in result.stdout
    assert result.stderr == "(1 earlier in the log under that name, deleted or of another type, left out)\n"


@pytest.mark.parametrize(
    ("group", "why"),
    [
        ("fraud-848", "a KIP-848 group"),
        ("ledger-share", "a share group's members share partitions"),
        ("quota-kstreams", "a Streams group"),
        ("geo-stream", "Kafka Streams assigns tasks"),
    ],
)
def test_groups_that_are_not_replayed(group: str, why: str) -> None:
    result = kshadow("whatif", group, "--from", SEGMENTS)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: '{group}': {why}")


def test_connect_and_others_are_not_replayed_either(tmp_path: Path) -> None:
    log = b.Log().add(b.classic_group(1, b.worker("w-1", {"c": [0]}), protocol_type="connect", protocol="sessioned"))
    log.add(b.classic_group(1, b.member("r-1", None), group="registry", protocol_type="sr", protocol="v0"))
    log.add(b.commit("t", 0, group="simple"))
    history = History(created=False)
    history.records = log.records
    path = written(tmp_path / "others.ndjson", history)
    for group, why in {
        "orders": "Connect shares out its tasks",
        "registry": "its protocol type is 'sr'",
        "simple": "the log shows no member of it",
    }.items():
        result = kshadow("whatif", group, "--from", path)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"Error: '{group}': {why}")


def test_an_assignor_that_the_model_lacks(restarts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.simulation.whatif.calibrated_replay.ASSIGNORS", {})
    result = kshadow("whatif", "orders", "--from", restarts)
    assert (result.exit_code, result.stderr) == (1, "Error: 'orders': the model has no assignor range\n")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([], "exactly one of"),
        (["--from", "X", "--heartbeat-interval", "45s"], "the heartbeat interval must be more than 0 and less than"),
        (["--from", "X", "--poll-timeout", "2s"], "the heartbeat interval must be more than 0 and less than"),
        (["--from", "X", "--heartbeat-interval", "0s"], "the heartbeat interval must be more than 0 and less than"),
        (["--from", "X", "--client-heartbeat-interval", "0s"], "could end: 0, 45000 and 300000 ms"),
        (["--from", "X", "--client-heartbeat-interval", "45s"], "could end: 45000, 45000 and 300000 ms"),
        (["--from", "X", "--client-heartbeat-interval", "1h"], "could end: 3600000, 45000 and 300000 ms"),
        (["--from", "X", "--session-timeout", "0s"], "the session and the poll timeout, or no rebalance could end"),
        (["--from", "X", "--session-timeout", "25d"], "expected at most 2147483647 ms"),
        (["--from", "X", "--initial-delay", "25d"], "expected at most 2147483647 ms"),
        (["--from", "X", "--session-timeout", "soon"], "a duration such as 30s"),
        (["--from", "X", "--session-timeout", "now"], "a duration such as 30s"),
        (["--from", "X", "--session-timeout", "1790000000000"], "a duration such as 30s"),
        (["--from", "X", "--assignor", "homemade"], "is not one of 'range'"),
    ],
)
def test_wrong_usage(restarts: Path, options: list[str], why: str) -> None:
    result = kshadow("whatif", "orders", *(str(restarts) if it == "X" else it for it in options))
    assert (result.exit_code, result.stdout) == (2, "")
    assert why in result.stderr


@pytest.mark.usefixtures("process")
def test_on_a_terminal_nothing_is_wider(restarts: Path) -> None:
    text, code = on_terminal("whatif", "orders", "--from", restarts, columns=80)
    assert code == 0
    shown = [line for line in BOLD.sub("", text).splitlines() if not line.startswith("(no room")]
    assert max(map(len, shown)) <= 80


def test_bad_data_is_said_and_what_is_there_is_replayed(restarts: Path) -> None:
    with restarts.open("a") as file:
        file.write("{}\n")
    result = kshadow("whatif", "orders", "--from", restarts)
    assert result.exit_code == 1
    assert "8 generations" in result.stdout
    assert result.stderr != ""
