"""`kshadow verdict` on files: the word, the exit codes, which rollout, and the JSON."""

from __future__ import annotations

import json
import time
from functools import cache
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import Result

from agent.cli.text import iso_time
from agent.core.events.samples import GroupLagTotal, GroupSample, sample_event
from agent.kafka.writer.ndjson import write_lines
from agent.persistence.export.encoded_event import encode_event
from agent.persistence.export.parquet_sink import ParquetSink
from agent.serving.rollouts import find_rollouts
from agent.serving.server import WebServer
from tests.harness.verdicts.stories import FIRST_MS, GROUP, SECOND_MS, START_MS, STORIES, UNTIL_MS, events, records
from tests.unit.analyzers.story import Story
from tests.unit.cli.running import SEGMENTS, kshadow, lines, on_terminal, spawn
from tests.unit.core.shadow.build import run_of
from tests.unit.presentation.narrative.golden import histories
from tests.unit.presentation.schemas.strict import validators
from tests.unit.serving.routes.replayed import Replayed, let_go, served
from tests.unit.simulation.generator.making import runs

SEED = 411


@cache
def log(story: str) -> str:
    out = BytesIO()
    write_lines(records(STORIES[story], SEED), out)
    return out.getvalue().decode()


def verdict(story: str, *options: object, group: str = GROUP) -> Result:
    return kshadow("verdict", group, "--from", "-", *options, stdin=log(story))


@pytest.mark.parametrize(("story", "code"), [("clean eager", 0), ("short grace period", 1), ("lopsided", 1)])
def test_the_exit_code_is_the_verdict(story: str, code: int) -> None:
    result = verdict(story, "--no-whatif")
    assert (result.exit_code, result.stderr) == (code, "")
    assert lines(result)[0].startswith(f"{STORIES[story].expected}: the rollout of `{GROUP}`, found by the turnover")
    assert len(lines(result)) < 24, "one screen"


@pytest.mark.usefixtures("process")
def test_a_terminal_that_is_narrower_than_what_stands_before_the_texts(tmp_path: Path) -> None:
    path = tmp_path / "log.ndjson"
    path.write_text(log("clean eager"), encoding="utf-8")
    text, code = on_terminal("verdict", GROUP, "--from", path, "--no-whatif", columns=20)
    assert code == 0
    told = verdict("clean eager", "--no-whatif").stdout.partition("\n\n")[2].partition("\n\n")[0]
    assert " ".join(told.split()) in " ".join(text.split())


def test_an_earlier_rollout_is_told_by_its_number() -> None:
    told = [
        json.loads(verdict("short grace period", "--no-whatif", "-o", "json", "--rollout", it).stdout)
        for it in (1, 2)
    ]
    assert [it["verdict"] for it in told] == ["harmful", "same"]
    assert told[0]["compared_with"]["began_ms"] == told[1]["began_ms"]


def test_what_other_settings_would_have_cost() -> None:
    form = json.loads(verdict("clean eager", "-o", "json").stdout)
    for schema in validators("rollout"):
        schema.validate(form)
    costs = form["whatif"]
    assert costs["untold"] is None
    assert costs["static_membership"]["rebalances"] < costs["today"]["rebalances"] / 2
    static = json.loads(verdict("clean static", "-o", "json").stdout)
    assert static["whatif"]["untold"] == "the log has no rebalance of it to replay"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--since", START_MS + SECOND_MS + 20 * 60_000], "no rollout of 'payments' in - in that time"),
        (["--rollout", "3"], "no rollout '3' of 'payments' in -; 1 to 2 are there"),
        (["--rollout", "7d9c8"], "no rollout '7d9c8' of 'payments'"),
        (["--rollout", "9" * 5000], "no rollout '999"),
    ],
)
def test_without_a_rollout_there_is_no_verdict(options: list[object], expected: str) -> None:
    result = verdict("clean eager", *options)
    assert (result.exit_code, result.stdout) == (3, "")
    assert expected in result.stderr


def test_one_that_is_running_has_none() -> None:
    ended_ms = json.loads(verdict("clean eager", "--no-whatif", "-o", "json").stdout)["ended_ms"]
    cut = [it for it in log("clean eager").splitlines() if json.loads(it)["timestamp"] < ended_ms + 20_000]
    result = kshadow("verdict", GROUP, "--from", "-", "--no-whatif", stdin="\n".join(cut))
    assert (result.exit_code, lines(result)[0].partition(":")[0]) == (3, "pending")
    assert result.stderr == "Error: no verdict yet where the files end\n"
    now_ms = ended_ms + 20_000
    agent = Replayed(runs([it for it in records(STORIES["clean eager"], SEED) if it.timestamp_ms < now_ms]))
    agent.now_ms = now_ms
    with served(agent) as url:
        result = kshadow("verdict", GROUP, "--agent", url)
    assert (result.exit_code, result.stderr) == (3, "Error: no verdict yet; --wait 5m waits for it with --agent\n")


def test_one_that_was_stopped_has_none_to_wait_for(tmp_path: Path) -> None:
    history = tmp_path / "history"
    ParquetSink(str(history)).write([encode_event(it, 0) for it in histories()["audit-deploy"].events])
    result = kshadow("verdict", "audit-deploy", "--from", history)
    assert lines(result)[1].startswith("All members left before the group was steady. If none joins until")
    assert (result.exit_code, result.stderr) == (3, "Error: no verdict yet where the files end\n")
    names = ["svc-0", "svc-1", "svc-2"]
    story = Story().change(names).work(1_200)
    for name in names:
        story.change(leave=[name]).work(3).change(join=[name]).work(5)
    story.change(leave=names)
    agent = Replayed([run_of(story.log.records)])
    agent.now_ms = story.log.now_ms + 11 * 60_000
    with served(agent) as url:
        began_s = time.monotonic()
        result = kshadow("verdict", story.group, "--agent", url, "--wait", "30s")
        assert time.monotonic() - began_s < 20, "ten minutes are over: it will never have one"
    assert lines(result)[0].startswith("not known: the rollout of")
    assert (result.exit_code, result.stderr) == (3, "Error: no verdict: nothing tells whether it did harm\n")


@pytest.mark.usefixtures("process")
def test_an_agent_that_reads_anew_and_is_away_meanwhile_is_waited_for() -> None:
    agent = Replayed(runs(list(records(STORIES["clean eager"], SEED))), has_caught_up=False)
    agent.now_ms = START_MS + UNTIL_MS
    server = WebServer(agent, "127.0.0.1", 0).start()
    with spawn("verdict", GROUP, "--agent", server.url, "--wait", "90s") as process:
        try:
            assert process.stderr is not None
            assert b"catching up with the topic's end" in process.stderr.readline()
            server.stop()
            server = WebServer(agent, "127.0.0.1", urlsplit(server.url).port or 0).start()
            agent.has_caught_up = True
            stdout, stderr = process.communicate(timeout=60)
        finally:
            process.kill()
            server.stop()
    assert (process.returncode, stdout.partition(b":")[0], stderr) == (0, b"same", b"")


def test_nobody_is_waited_for_who_was_not_there_at_first() -> None:
    result = kshadow("verdict", GROUP, "--agent", "http://127.0.0.1:1", "--wait", "90s")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "no agent answers at http://127.0.0.1:1" in result.stderr


def test_an_agent_that_a_file_names_is_not_waited_for_beside_files(tmp_path: Path) -> None:
    (tmp_path / "kshadow.yaml").write_text("agent: http://127.0.0.1:1\n")
    asked = ["--config", tmp_path / "kshadow.yaml", "verdict", "any", "--wait", "1s"]
    result = kshadow(*asked, env={"KSHADOW_FROM": str(SEGMENTS)})
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--wait goes with --agent" in result.stderr


def test_one_whose_beginning_an_agent_has_let_go_has_none() -> None:
    agent = Replayed(runs(list(records(STORIES["clean eager"], SEED))))
    agent.now_ms = START_MS + UNTIL_MS
    second = find_rollouts(agent, GROUP)
    assert second is not None
    gone_ms = second.rollouts[1]["began_ms"]
    let_go(agent, GROUP, sum(it["at_ms"] <= gone_ms for it in agent.recent.timeline(GROUP)[0]))
    with served(agent) as url:
        result = kshadow("verdict", GROUP, "--agent", url)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "the agent keeps the latest events only" in result.stderr
    assert f"what happened is known from {iso_time(gone_ms + 1)} on" in result.stderr
    assert "no rollout of 'payments'" in result.stderr


def cleaned(until_ms: int) -> str:
    """A log as the brokers' cleaner leaves it that got so far: of each key the newest record."""
    told = [json.loads(it) for it in log("short grace period").splitlines()]
    newest = {it["key"]: it for it in told if it["timestamp"] < until_ms}
    kept = [it for it in told if it["timestamp"] >= until_ms or newest[it["key"]] is it]
    return "\n".join(map(json.dumps, kept))


def test_one_whose_beginning_was_compacted_away_has_none() -> None:
    second = json.loads(verdict("short grace period", "--no-whatif", "-o", "json").stdout)
    # Half of its members had been replaced by then.
    half_ms = (second["began_ms"] + second["ended_ms"]) // 2
    result = kshadow("verdict", GROUP, "--from", "-", stdin=cleaned(half_ms))
    assert (result.exit_code, result.stdout) == (3, "")
    assert "the log does not reach back to the group's beginning: what happened is known from" in result.stderr
    late = kshadow("verdict", GROUP, "--from", "-", "--since", half_ms + 20 * 60_000, stdin=cleaned(half_ms))
    assert "does not reach back" not in late.stderr, "it does to what was asked for"
    before = kshadow("verdict", GROUP, "--from", "-", "--no-whatif", stdin=cleaned(second["began_ms"] - 1))
    assert (before.exit_code, lines(before)[0].partition(":")[0]) == (1, "harmful")


def test_groups_and_options_that_do_not_fit() -> None:
    nobody = kshadow("verdict", "nobody", "--from", SEGMENTS)
    # A misspelled name is no harm, which 1 would say.
    assert (nobody.exit_code, "no group 'nobody' in " in nobody.stderr) == (3, True)
    with served(Replayed([run_of(Story().change(["a"]).log.records)])) as url:
        assert kshadow("verdict", "nobody", "--agent", url).exit_code == 3
    waits = kshadow("verdict", GROUP, "--from", SEGMENTS, "--wait", "1m")
    assert (waits.exit_code, "--wait goes with --agent" in waits.stderr) == (2, True)
    assert kshadow("verdict", GROUP, "--from", SEGMENTS, "--wait", "soon").exit_code == 2


def test_history_tables_know_the_peak_of_lag(tmp_path: Path) -> None:
    told = events(STORIES["clean eager"], SEED)
    # The last one is from after the rollout: tables tell time by their newest event.
    for after_ms, behind, seconds in (
        (FIRST_MS, 40, 2.0),
        (SECOND_MS, 90_000, 140.0),
        (SECOND_MS + 900_000, 50, 3.0),
    ):
        at_ms = START_MS + after_ms + 45_000
        lag = GroupLagTotal(24, 24, behind, seconds)
        told.append(sample_event(GroupSample(at_ms, 1, 10**6, GROUP, "classic", "Stable", 7, 1.0, None, lag)))
    history = tmp_path / "history"
    ParquetSink(str(history)).write([encode_event(it, 0) for it in told])
    result = kshadow("verdict", GROUP, "--from", history, "-o", "json")
    form = json.loads(result.stdout)
    assert (result.exit_code, form["verdict"], form["lag_peak_records"], form["lag_peak_seconds"]) == (
        1,
        "worse",
        90_000,
        140.0,
    )
    assert form["reasons"] == ["Lag peaked at 2 min 20 s; in the rollout before at 2.0 s."]
    assert form["whatif"]["untold"] == "there are no records to replay"
