"""`kshadow timeline`, `explain` and `findings` on files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from agent.cli.text import iso_time
from agent.core.records import RecordBatch
from agent.kafka.source.segments import discover
from tests.unit.cli.hostile import BOLD as BOLDED
from tests.unit.cli.running import FORMATS, SEGMENTS, kshadow, lines, ndjson, on_terminal
from tests.unit.cli.test_decode import line
from tests.unit.core.shadow import build as b
from tests.unit.core.wire.vectors import CAPTURE, needs

WHOLE = pytest.param(CAPTURE / "segments", id="shared", marks=needs(CAPTURE))


def events(*options: object) -> list[dict[str, object]]:
    result = kshadow("timeline", "fraud-848", "--from", SEGMENTS, "-o", "ndjson", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    return [json.loads(it) for it in lines(result)]


def test_the_formats_hold_the_historys_events() -> None:
    replayed = kshadow("replay", SEGMENTS, "--group", "fraud-848")
    assert [json.dumps(it, separators=(",", ":")) for it in events()] == lines(replayed)
    for output, load in (("json", json.loads), ("yaml", yaml.safe_load)):
        assert load(kshadow("timeline", "fraud-848", "--from", SEGMENTS, "-o", output).stdout) == events()


def test_ranges_and_limits() -> None:
    every = events()
    third = every[3]["at_ms"]
    assert events("--since", third) == [it for it in every if it["at_ms"] >= third]
    assert events("--until", third) == [it for it in every if it["at_ms"] <= third]
    assert events("--since", "1d") == events("--limit", 1_000) == every
    newest = kshadow("timeline", "fraud-848", "--from", SEGMENTS, "--limit", 2, "-o", "ndjson")
    assert [json.loads(it) for it in lines(newest)] == every[-2:]
    assert newest.stderr == f"({len(every) - 2} earlier left out by --limit)\n"
    quiet = ("--since", every[-1]["at_ms"] + 1, "--until", every[-1]["at_ms"] + 1)
    nothing = kshadow("timeline", "fraud-848", "--from", SEGMENTS, *quiet)
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (0, "", "nothing happened in that time\n")


def test_durations_count_back_from_the_files_end() -> None:
    made = [b.new_group("g"), b.classic_group(1, b.member("a-1"), group="g"), b.new_group("h")]
    text = "\n".join(line(*pair, offset=at, timestamp=b.T0 + at * 60_000) for at, pair in enumerate(made))

    def told(since: str) -> set[str]:
        result = kshadow("timeline", "g", "--from", "-", "--since", since, "-o", "ndjson", stdin=text)
        return {json.loads(it)["type"] for it in lines(result)}

    assert "rebalance" in told("1m")
    assert told("59s") == set()
    assert "group_created" in told("2m")


def test_the_table() -> None:
    result = kshadow("timeline", "fraud-848", "--from", SEGMENTS)
    head, created, first, *_ = lines(result)
    assert head.split() == ["AT", "EVENT", "WHAT", "COST"]
    assert created.split() == ["2026-11-21", "07:28:14.383Z", "created", "the", "group", "was", "created", "-"]
    assert " rebalance  epoch 2: `fraud-848-2` joined; 1 member; 12 partitions assigned " in first


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("path", [SEGMENTS, WHOLE])
def test_a_terminal_is_kept_to(path: object, columns: int) -> None:
    # What a replay says is tried in one width: it takes a second each time.
    for command in (["timeline"], ["explain", *(["--no-whatif"] if columns != 80 else [])]):
        text, code = on_terminal(*command, "pricing-poll", "--from", path, columns=columns)
        assert code == 0
        assert max(len(BOLDED.sub("", row)) for row in text.split("\n")) <= columns
        assert "\x1b[1m" in text
        plain, _ = on_terminal(*command, "pricing-poll", "--from", path, columns=columns, env={"NO_COLOR": "1"})
        assert plain == BOLDED.sub("", text)


@pytest.mark.usefixtures("process")
def test_numbers_keep_their_units() -> None:
    text, _ = on_terminal("explain", "pricing-poll", "--from", SEGMENTS, columns=50)
    assert not [row for row in text.split("\n") if row.strip().startswith(("ms ", "s ", "% ", "min "))]


@pytest.mark.parametrize("path", [WHOLE])
def test_an_explanation(path: object) -> None:
    text = kshadow("explain", "emails-crash", "--from", path, "--full").stdout
    answer, _, *titles = [row for row in text.split("\n") if row and not row.startswith(" ")]
    assert answer.startswith("`emails-crash-0` was removed from `emails-crash` at 07:28:29: its session timed out (")
    surely = ["Why", "How sure"]
    assert titles == ["What happened", *surely, "What it cost", "Findings", *titles[-2:]]
    assert titles[-2:] == ["What other settings would have changed", "What to do"]
    assert "`emails-crash-0` was removed because its session timed out (very likely, " in text
    assert "session.timeout.ms is 6.0 s" in text
    for output, load in (("json", json.loads), ("ndjson", json.loads), ("yaml", yaml.safe_load)):
        form = load(kshadow("explain", "emails-crash", "--from", path, "-o", output).stdout)
        assert (form["group"], form["state"], form["numbers"]["rebalances"]) == ("emails-crash", "Empty", 6)
        assert form["summary"] == answer


@pytest.mark.parametrize("path", [WHOLE])
def test_the_brokers_own_log_makes_it_certain(path: object) -> None:
    log = CAPTURE / "coordinator.log"
    told = kshadow("explain", "emails-crash", "--from", path, "--broker-log", log, "--full")
    assert told.exit_code == 0
    assert "its session timed out (observed). It has not joined again." in told.stdout
    assert "has failed, removing it from the group" in told.stdout
    refused = kshadow("explain", "emails-crash", "--agent", "http://localhost:1", "--broker-log", log)
    assert (refused.exit_code, "--broker-log goes with --from" in refused.stderr) == (2, True)


@pytest.mark.parametrize("path", [WHOLE])
def test_what_other_settings_would_have_saved(path: object) -> None:
    told = kshadow("explain", "audit-loop", "--from", path, "--full")
    assert (told.exit_code, told.stderr) == (0, "")
    assert "The log shows 8 rebalances and 3 min 54 s of stopped partition time." in told.stdout
    assert "A replay under today's settings has 8, and 4 min 19 s." in told.stdout
    assert "Set `group.instance.id` in every client, an id of its own for each: saves 3 min 16 s of" in told.stdout
    assert "group.instance.id=" not in told.stdout, "one id in every client makes them fence each other"
    assert "(now `range`)" not in told.stdout, "that was tried"
    without = kshadow("explain", "audit-loop", "--from", path, "--no-whatif", "--full")
    assert "A replay under" not in without.stdout
    assert "(now `range`)" in without.stdout
    one = kshadow("explain", "audit-loop", "--from", path, "--until", "2026-11-21T07:27:50", "-o", "json")
    assert json.loads(one.stdout)["whatif"] is None, "there is nothing to save in its beginning"
    modern = kshadow("explain", "fraud-848", "--from", path, "--full")
    assert "saved: a KIP-848 group has no join phases to save; whatif replays classic groups." in modern.stdout


@pytest.mark.parametrize("path", [WHOLE])
def test_a_group_that_is_gone_has_a_story_still(path: object) -> None:
    text = kshadow("explain", "feeds-del", "--from", path, "--full")
    assert text.exit_code == 0
    assert "no longer exists: it was deleted at 2026-11-21 07:28:12 UTC." in text.stdout
    assert kshadow("timeline", "feeds-del", "--from", path).exit_code == 0
    assert kshadow("describe", "feeds-del", "--from", path).exit_code == 1


def test_no_findings() -> None:
    for output, said in zip(FORMATS, ("", "[]\n", "", "[]\n"), strict=True):
        result = kshadow("findings", "--from", SEGMENTS, "-o", output, "--analyzer", "autoscaler_storm")
        assert (result.exit_code, result.stdout) == (0, said)


def test_no_findings_of_a_group_that_there_is_not() -> None:
    """That none was found, of a name that was mistyped, would be a false all-clear."""
    source = ("--from", SEGMENTS, "--since", "0")
    for output in FORMATS:
        near = kshadow("findings", *source, "-o", output, "--group", "geo-stream", "--group", "pricing-pol")
        assert (near.exit_code, near.stdout) == (1, "")
        assert near.stderr == f"Error: no group 'pricing-pol' in {SEGMENTS}; did you mean 'pricing-poll'?\n"
    calm = kshadow("findings", *source, "--group", "ads-eos")
    assert (calm.exit_code, calm.stderr) == (0, "no findings\n")
    idle = kshadow("findings", "--from", SEGMENTS, "--analyzers", "none")
    assert (idle.exit_code, idle.stderr) == (0, "no findings: no analyzer was run\n")
    unset = kshadow("findings", "--from", SEGMENTS, "--analyzers", "")
    assert (unset.exit_code, unset.stdout) == (2, ""), "a variable that is not set is no all-clear"
    gone = "\n".join(line(*it, timestamp=1_000) for it in (b.new_group("gone"), b.no_classic_group("gone")))
    past = kshadow("findings", "--from", "-", "--group", "gone", stdin=gone)
    assert (past.exit_code, past.stderr) == (0, "no findings\n"), "it was there"


def test_bad_data_is_said() -> None:
    good = line(*b.new_group("g"))
    for command in (["timeline", "g"], ["explain", "g"], ["findings"]):
        result = kshadow(*command, "--from", "-", stdin=f"{good}\n{{\n")
        assert result.exit_code == 1
        assert "stdin: line 2: expected a JSON object" in result.stderr


def test_exactly_one_source() -> None:
    for command in (["timeline", "g"], ["explain", "g"], ["findings"]):
        assert "exactly one of --from, --bootstrap-server, --agent is needed" in kshadow(*command).stderr


def test_a_time_of_which_nothing_is_known() -> None:
    """Before the group, and after the end of the files: nothing happened there that anybody could know."""
    after = kshadow("explain", "fraud-848", "--from", SEGMENTS, "--since", "2036-01-01")
    before = kshadow("explain", "fraud-848", "--from", SEGMENTS, "--until", "2016-01-01")
    inside = kshadow("explain", "fraud-848", "--from", SEGMENTS, "--since", "2026-11-21")
    assert [it.exit_code for it in (after, before, inside)] == [0, 0, 0]
    unknown = "Nothing is known of `fraud-848` in that time:"
    assert " ".join(after.stdout.split()).startswith(f"{unknown} what is known ends at 2026-11-21 07:29:")
    assert " ".join(before.stdout.split()).startswith(f"{unknown} its first event is from 2026-11-21 07:2")
    assert "Not known: its first event is" in " ".join(before.stdout.split())
    for answer in (after, before):
        assert "o problem was found" not in answer.stdout, "nobody could know"
        assert "rebalance" not in answer.stdout
    assert unknown not in " ".join(inside.stdout.split())
    assert {it.stderr for it in (after, before, inside)} == {""}
    assert "to 2026-11-21" not in after.stdout, "no range ends before it begins"
    for command in (["timeline", "fraud-848"], ["findings", "--group", "fraud-848"], ["findings"]):
        later = kshadow(*command, "--from", SEGMENTS, "--since", "2036-01-01")
        assert (later.exit_code, later.stdout) == (0, "")
        assert later.stderr.startswith("(nothing is known of that time: what there is ends at 2026-11-21 07:29:")
    earlier = kshadow("timeline", "fraud-848", "--from", SEGMENTS, "--until", "2016-01-01")
    assert (earlier.exit_code, earlier.stdout) == (0, "")
    assert earlier.stderr.startswith("(nothing is known of that time: the group's first event is from 2026-11-21 07:")


def test_an_open_finding_says_as_of_when_its_summary_is() -> None:
    result = kshadow("findings", "--from", SEGMENTS, "-o", "wide")
    head, row = lines(result)[:2]
    (found,) = json.loads(kshadow("findings", "--from", SEGMENTS, "-o", "json").stdout)
    assert "AS OF" in head
    assert row[head.index("AS OF") :].startswith(iso_time(found["at_ms"]))
    assert row[head.index("UNTIL") :].strip().startswith("-")


@needs(CAPTURE)
def test_a_finding_of_a_group_that_is_empty_by_now_is_told_as_of_then() -> None:
    said = kshadow("explain", "search-range", "--from", CAPTURE / "segments").stdout
    assert said.startswith(
        "`search-range` was Empty at the end. As of 07:29:06: search-range-0 holds 3 of 3\npartitions, "
    )
    assert "idle_members (info, as of 07:28:51)" in said
    text = kshadow("explain", "pricing-static", "--from", CAPTURE / "segments").stdout
    assert "since 07:28:21, `pricing-static-i2` and `pricing-static-i0` were" in text


@needs(CAPTURE)
def test_the_end_is_of_the_log_where_the_range_ends_before() -> None:
    asked = ["explain", "search-range", "--from", CAPTURE / "segments", "--until"]
    assert kshadow(*asked, "2026-11-21T07:29:10Z").stdout.startswith(
        "`search-range` was Empty at the end of the log."
    )
    assert kshadow(*asked, "2026-11-21T07:30:00Z").stdout.startswith("`search-range` was Empty at the end. ")


def test_nothing_is_found_within_a_window_of_records_without_timestamps(tmp_path: Path) -> None:
    runs = [run for log in discover(SEGMENTS) for run in log.committed() if isinstance(run, RecordBatch)]
    path = tmp_path / "plain.ndjson"
    path.write_text("\n".join(line(it.key, it.value) for run in runs for it in run.records()), encoding="utf-8")
    assert lines(kshadow("findings", "--from", SEGMENTS, "-o", "ndjson")), "of the same with their timestamps"
    found = kshadow("findings", "--from", path, "-o", "json")
    assert (found.exit_code, json.loads(found.stdout)) == (0, [])
    assert found.stderr == "the records have no timestamps: nothing is found without times\n"
    assert not lines(kshadow("replay", path, "--event", "finding"))


def test_records_without_timestamps_are_told_without_times(tmp_path: Path) -> None:
    group, first = b.new_group(), b.classic_group(1, b.member("a-1", {"t": [0, 1]}))
    steps = [group, first, b.commit(), b.classic_group(2, b.member("a-2", {"t": [0, 1]})), b.classic_group(3)]
    log = b.Log()
    for step in steps:
        log.add(step)
    path = ndjson(tmp_path / "plain.ndjson", *(line(it.key, it.value) for it in log.records))
    name = log.records[0].key[4:].decode()
    for more in ((), ("--full",)):
        told = kshadow("explain", name, "--from", path, *more)
        assert told.exit_code == 0
        assert "1969" not in told.stdout
        assert "1970" not in told.stdout
        assert "times that the records do not have" in told.stdout
    events = json.loads(kshadow("timeline", name, "--from", path, "--event", "rebalance", "-o", "json").stdout)
    assert [(it["sync_ms"], it["stopped_partition_ms"]) for it in events] == [(None, None)] * 3
    played = kshadow("whatif", name, "--from", path)
    assert (played.exit_code, played.stdout) == (1, "")
    assert "its records have no timestamps" in played.stderr
