"""`kshadow generate`: where the records go, what is said, and what is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from agent.kafka.source.ndjson import read_ndjson
from agent.simulation.generator.scenario_kinds import SCENARIO_KINDS
from tests.unit.cli.running import COMMAND, environment, kshadow, lines, on_terminal, spawn

FEW = ("generate", "--groups", "30", "--members", "1-3", "--commit-interval", "60s", "--start", "2026-11-20T10:00")
EVERY = [word for fate in SCENARIO_KINDS for word in ("--mix", fate)]


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*.log")}


def test_one_of_each_is_told_so(tmp_path: Path) -> None:
    one = ("--groups", "1", "--members", "1", "--partitions", "1", "--duration", "1m", *EVERY)
    said = kshadow(*FEW, *one, "--out", tmp_path / "a").stdout
    assert re.match(r"[\d,]+ records of 1 group in 1 partition, ", said), said
    table = kshadow("replay", tmp_path / "a", "-o", "table").stdout
    assert re.search(r"generation \d+, 1 member ", table), table


def test_segments_lines_and_standard_output_hold_the_same_history(tmp_path: Path) -> None:
    said = kshadow(*FEW, *EVERY, "--out", tmp_path / "a")
    assert (said.exit_code, said.stderr) == (0, "")
    assert re.fullmatch(
        r"[\d,]+ records of 30 groups in \d+ partitions, [\d,]+ bytes:"
        r" 2026-11-20 10:00:00.000Z to 2026-11-20 11:00:00.000Z\n",
        said.stdout,
    )
    assert kshadow(*FEW, *EVERY, "--out", tmp_path / "b").exit_code == 0
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert kshadow(*FEW, *EVERY, "--seed", 1, "--out", tmp_path / "c").exit_code == 0
    assert files(tmp_path / "a") != files(tmp_path / "c")
    assert kshadow(*FEW, *EVERY, "--out", tmp_path / "d.ndjson.gz").exit_code == 0
    piped = kshadow(*FEW, *EVERY, "--out", "-")
    assert (piped.exit_code, piped.stderr) == (0, "")
    (tmp_path / "e.ndjson").write_text(piped.stdout)
    told = [kshadow("replay", tmp_path / name).stdout for name in ("a", "d.ndjson.gz", "e.ndjson")]
    assert told[0] == told[1] == told[2] != ""


def test_the_truth_beside_what_replay_tells(tmp_path: Path) -> None:
    truth = tmp_path / "truth.ndjson"
    assert kshadow(*FEW, *EVERY, "--truth", truth, "--out", tmp_path / "a").exit_code == 0
    truths = [json.loads(line) for line in truth.read_text().splitlines()]
    assert {it["fate"] for it in truths} == SCENARIO_KINDS.keys()
    events = [json.loads(line) for line in lines(kshadow("replay", tmp_path / "a"))]
    rebalances = [(it["group"], it["generation"]) for it in events if it["type"] == "rebalance"]
    assert sorted(rebalances) == sorted((it["group"], of["generation"]) for it in truths for of in it["rebalances"])


def test_options_reach_the_groups(tmp_path: Path) -> None:
    out = tmp_path / "a"
    result = kshadow(
        *(*FEW, "--members", 3, "--topics", 2, "--partitions", "4-6", "--duration", "2m", "--session-timeout", "20m"),
        *("--mix", "steady=2", "--assignor", "roundrobin", "--offsets-partitions", 2, "--out", out),
    )
    assert result.exit_code == 0
    assert {path.name for path in out.iterdir()} == {"__consumer_offsets-0", "__consumer_offsets-1"}
    groups = json.loads(kshadow("groups", "--from", out, "-o", "json").stdout)
    assert {(it["members"], it["protocol"], it["rebalances"]) for it in groups} == {(3, "roundrobin", 1)}
    form = json.loads(kshadow("describe", groups[0]["group"], "--from", out, "-o", "json").stdout)
    assert {it["session_timeout_ms"] for it in form["members"]} == {1_200_000}
    assert set(form["offsets"][0]["topic"].split("-")) & {"000", "001"}


@pytest.mark.parametrize("more", [(), ("--duration", "20m"), ("--commit-interval", "30s")])
def test_about_so_many_records(tmp_path: Path, more: tuple[str, ...]) -> None:
    out = tmp_path / "a.ndjson"
    result = kshadow("generate", "--groups", 30, "--records", 6000, *more, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert 4_500 < len(out.read_text().splitlines()) < 7_500


def test_about_so_many_records_of_few_groups(tmp_path: Path) -> None:
    """Each commits so often that 200 ms between its members' intervals halved the number."""
    out = tmp_path / "a.ndjson"
    more = ("--seed", 3, "--mix", "steady", "--duration", "2m", "--records", 20_000)
    assert kshadow("generate", "--groups", 2, *more, "--out", out).exit_code == 0
    assert 15_000 < len(out.read_text().splitlines()) < 25_000


def test_without_a_start_it_ends_now(tmp_path: Path) -> None:
    out = tmp_path / "a.ndjson"
    before = time.time() * 1000
    assert kshadow(*FEW[:-2], "--duration", "1m", "--commit-interval", "1s", "--out", out).exit_code == 0
    times = [it.timestamp_ms for it in read_ndjson(str(out))]
    assert before - 3_000 < max(times) <= time.time() * 1000
    assert min(times) >= before - 61_000


@pytest.mark.parametrize("name", ["a", "a.ndjson"])
def test_what_is_there_stays_unless_told(tmp_path: Path, name: str) -> None:
    out, truth = tmp_path / name, tmp_path / "truth"
    assert kshadow(*FEW, "--out", out).exit_code == 0
    result = kshadow(*FEW, "--truth", truth, "--out", out)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{out}: expected a " in result.stderr
    assert not truth.exists()
    truth.write_text("mine")
    refused = kshadow(*FEW, "--truth", truth, "--out", tmp_path / "other")
    assert (refused.exit_code, "truth: expected a name that is not taken" in refused.stderr) == (2, True)
    assert not (tmp_path / "other").exists()
    assert kshadow(*FEW, "--truth", truth, "--force", "--out", out).exit_code == 0
    assert truth.read_text().startswith("{")


def test_a_full_disk_is_no_wrong_usage(tmp_path: Path) -> None:
    full = tmp_path / "full.ndjson"
    full.symlink_to("/dev/full")
    for arguments in (("--out", full), ("--out", tmp_path / "a", "--truth", full)):
        result = kshadow(*FEW, *arguments, "--force")
        assert (result.exit_code, result.stdout) == (3, "")
        assert "No space left on device" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "exactly one of --out, --bootstrap-server is needed; none was given"),
        (("--out", "x", "--bootstrap-server", "h:1"), "--out and --bootstrap-server were given"),
        (("--out", "x", "-X", "a=b"), "--property and --create-topic go with --bootstrap-server"),
        (("--out", "x", "--create-topic"), "--property and --create-topic go with --bootstrap-server"),
        (("--bootstrap-server", "h:1", "--offsets-partitions", "5"), "the broker knows"),
        (("--out", "x", "--mix", "nope"), "fates out of steady, "),
        (("--out", "x", "--mix", "crash=much"), "expected a name with its weight (crash=3), got 'crash=much'"),
        (("--out", "x", "--assignor", "nope"), "assignors out of range, "),
        (("--out", "x", "--members", "few"), "--members' (env var: 'KSHADOW_MEMBERS'): expected a number from 1 to"),
        (("--out", "x", "--members", "5-1"), "or two, the lower one first (5, 1-30), got '5-1'"),
        (("--out", "x", "--duration", "5"), "expected a duration (500ms, 30s, 15m, 2h, 3d, 1h30m), got '5'"),
        (("--out", "x", "--duration", "5s"), "expected a duration of 1 minute or more, got 5000 ms"),
        (("--out", "x", "--duration", "9999w"), "expected a start of 0 or later, got -"),
        (("--out", "x", "--groups", "1000001"), "1000001 is not in the range 1<=x<=1000000"),
        (("--out", "x", "--topics", "1000001"), "1000001 is not in the range 1<=x<=1000000"),
        (("--out", "x", "--members", "100001"), "expected a number from 1 to 100000, or two"),
        (("--out", "x", "--partitions", "1-100001"), "the lower one first (5, 1-30), got '1-100001'"),
        (("--out", "x", "--offsets-partitions", "1000001"), "1000001 is not in the range 1<=x<=1000000"),
        (("--out", "x", "--records", "9999999999"), "groups that commit each 10 ms make fewer records in 3600000 ms"),
        (("--out", "x", "--records", "10"), "expected more records than that, got 10"),
        (("--out", "x", "--records", "9999", "--commit-interval", "100ms"), "expected a minute or more"),
        (
            ("--out", "x", "--records", "9999", "--duration", "1h", "--commit-interval", "1s"),
            "each follows from the other two",
        ),
        (("--out", "/nonexistent/x/y.ndjson"), "/nonexistent/x/y.ndjson: expected a file to write to"),
        (("--out", "x", "--truth", "/nonexistent/x"), "/nonexistent/x: expected a file to write to"),
    ],
)
def test_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str) -> None:
    monkeypatch.chdir(tmp_path)
    result = kshadow("generate", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in " ".join(result.stderr.replace("│", " ").split())
    assert not list(tmp_path.iterdir())


def test_a_broker_that_the_environment_names_is_not_written_to() -> None:
    result = kshadow("generate", env={"KSHADOW_BOOTSTRAP_SERVER": "127.0.0.1:1"})
    assert (result.exit_code, result.stdout) == (2, "")
    assert "only with --bootstrap-server on the command line" in result.stderr


def test_nobody_answers() -> None:
    result = kshadow("generate", "--bootstrap-server", "127.0.0.1:1", "-X", "socket.timeout.ms=1000")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "asking for the partitions of __consumer_offsets" in result.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_is_not_ours(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    result = kshadow(*FEW, "--out", tmp_path / "a")
    assert (result.exit_code, "may write there" in result.stderr) == (3, True)


@pytest.mark.usefixtures("process")
def test_a_terminal_sees_how_far_it_is(tmp_path: Path) -> None:
    text, code = on_terminal(*FEW, "--out", tmp_path / "a")
    assert code == 0
    progress, _, summary = text.partition("\r\x1b[K")
    assert re.fullmatch(r"(\r\d+ of 30 groups)+", progress)
    assert "records of 30 groups" in summary
    text, code = on_terminal(*FEW, "--mix", "simple", "--out", "-")
    assert (code, "records of 30 groups" in text) == (0, True)


@pytest.mark.usefixtures("process")
def test_a_reader_that_goes_away_is_no_error() -> None:
    with spawn(*FEW, "--commit-interval", "1s", "--out", "-") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(100)
        process.stdout.close()
        assert (process.wait(60), process.stderr.read()) == (0, b"")


@pytest.mark.usefixtures("process")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux's full device")
def test_a_full_disk_is_told() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, *FEW, "--out", "-"], stdout=full, stderr=subprocess.PIPE, env=environment(), check=False
        )
    assert (done.returncode, done.stderr) == (3, b"Error: cannot write the output: No space left on device\n")
