"""`groups`, `describe`, `members` and `coordinator`: offline, in each format, on a terminal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from agent.cli.data_source import source_errors_reported
from agent.core.protocol.hashing import GroupPartitioner, partition_for_group
from agent.kafka.source.errors import SourceDenied, SourcePathError
from agent.kafka.source.unpacking import MAX_UNPACKED_BYTES
from tests.unit.cli.running import SEGMENTS, kshadow, lines, ndjson, on_terminal
from tests.unit.cli.test_decode import line
from tests.unit.core.shadow import build as b
from tests.unit.kafka.source.test_unpacking import bomb
from tests.unit.presentation.schemas.strict import wrong
from tests.unit.serving.routes.replayed import Replayed, of_path, served

GROUPS = ["ads-eos", "fraud-848", "geo-stream", "ledger-share", "pricing-poll", "quota-kstreams"]


@pytest.mark.parametrize(
    "command",
    [["groups"], ["members", "fraud-848"], *(["describe", group] for group in GROUPS)],
    ids=" ".join,
)
def test_formats_say_the_same(command: list[str]) -> None:
    said = json.loads(kshadow(*command, "--from", SEGMENTS, "-o", "json").stdout)
    assert yaml.safe_load(kshadow(*command, "--from", SEGMENTS, "-o", "yaml").stdout) == said
    rows = [json.loads(it) for it in lines(kshadow(*command, "--from", SEGMENTS, "-o", "ndjson"))]
    assert rows == said if isinstance(said, list) else rows == [said]
    table = kshadow(*command, "--from", SEGMENTS)
    assert (table.exit_code, table.stderr) == (0, "")
    assert not [it for it in lines(table) if it != it.rstrip()], "no blanks at the ends of lines"
    assert "\x1b" not in table.stdout


def test_groups_has_what_the_contract_names() -> None:
    rows = json.loads(kshadow("groups", "--from", SEGMENTS, "-o", "json").stdout)
    assert [row["group"] for row in rows] == GROUPS
    of_group = "group group_type state generation protocol members partitions coordinator_partition last_commit_ms"
    assert all({*of_group.split(), "rebalances"} <= set(row) for row in rows)
    form = json.loads(kshadow("describe", "fraud-848", "--from", SEGMENTS, "-o", "json").stdout)
    of_member = (
        "member_id client_id client_host instance_id session_timeout_ms rebalance_timeout_ms subscription assignment"
    )
    assert set(of_member.split()) <= set(form["members"][0])
    assert {"topic", "partition", "offset", "committed_ms", "lag"} <= set(form["offsets"][0])
    assert json.loads(kshadow("members", "fraud-848", "--from", SEGMENTS, "-o", "json").stdout) == form["members"]


def test_a_group_as_a_table() -> None:
    text = kshadow("describe", "pricing-poll", "--from", SEGMENTS).stdout
    assert "State:                 Stable since 2026-11-21 07:2" in text
    assert "Members: 2\nMEMBER" in text
    assert "Committed offsets: 6\nTOPIC" in text
    assert "orders[0-2]" in text


def test_a_group_may_lie_behind_a_batch_that_is_too_large(tmp_path: Path) -> None:
    """3 as live, where the group that was asked for may be in it; 1 where it is damaged, and nobody's any more."""
    path = tmp_path / f"{0:020}.log"
    whole = bomb(0, megabytes=(MAX_UNPACKED_BYTES >> 20) + 1)
    path.write_bytes(whole)
    result = kshadow("describe", "g", "--from", str(path))
    assert result.exit_code == 3
    assert "oversized" in result.stderr
    assert "no group 'g' in " in result.stderr
    assert "or its records are among those that could not be read" in result.stderr
    path.write_bytes(whole[:-100] + bytes(100))
    assert kshadow("describe", "g", "--from", str(path)).exit_code == 1


def test_an_empty_group_and_its_anomalies() -> None:
    first, third = b.classic_group(1, b.member("a-1", {"t": [0]})), b.classic_group(3)
    text = kshadow("describe", b.GROUP, "--from", "-", stdin="\n".join([line(*first), line(*third)])).stdout
    assert "Members: none\n\nCommitted offsets: none\n" in text
    assert "Never completed:       1\n" in text
    assert "Anomalies in the log:\n  offset 1, " in text
    assert kshadow("members", b.GROUP, "--from", "-", stdin=line(*third)).stderr == "no members\n"
    assert kshadow("groups", "--from", "-", stdin="").stderr == "no groups\n"


@pytest.mark.parametrize("command", ["describe", "members", "lag", "timeline", "explain", "assign", "whatif"])
@pytest.mark.parametrize("output", ["table", "json"])
def test_an_unknown_group(command: str, output: str) -> None:
    near = kshadow(command, "pricing-pol", "--from", SEGMENTS, "-o", output)
    assert (near.exit_code, near.stdout) == (1, "")
    assert near.stderr == f"Error: no group 'pricing-pol' in {SEGMENTS}; did you mean 'pricing-poll'?\n"
    far = kshadow(command, "zzz", "--from", SEGMENTS, "-o", output)
    assert far.stderr == f"Error: no group 'zzz' in {SEGMENTS}; kshadow groups lists those there are\n"


def test_bad_data_does_not_hide_the_good() -> None:
    records = "\n".join([line(*b.classic_group(1, b.member("a-1", {"t": [0]}))), line(None, None)])
    for command in (["groups"], ["describe", b.GROUP], ["members", b.GROUP], ["describe", "other"]):
        result = kshadow(*command, "--from", "-", "-o", "json", stdin=records)
        assert result.exit_code == 1
        assert result.stderr.startswith("partition 0, offset 1: invalid: key: expected a key, got none\n")
        assert ("a-1" in result.stdout or b.GROUP in result.stdout) == ("other" not in command)


# 1-5: which source is asked. The command line wins over the environment: that is one source, not two.
@pytest.mark.parametrize(
    ("arguments", "env", "said"),
    [
        ([], {}, "exactly one of --from, --bootstrap-server, --agent is needed; none was given"),  # 1
        (["--from", "x", "--agent", "http://y"], {}, "; --from and --agent were given"),  # 2
        ([], {"KSHADOW_FROM": "x", "KSHADOW_AGENT": "http://y"}, "; --from and --agent were given"),  # 3
        (["--from", "x", "-X", "a=b"], {}, "--property goes with --bootstrap-server"),  # 4
        (["--bootstrap-server", "x", "-X", "ab"], {}, "expected a property as NAME=VALUE, got something else"),  # 5
        (["--bootstrap-server", "x", "-X", "=b"], {}, "expected a property as NAME=VALUE, got something else"),  # 6
        (["--bootstrap-server", "x", "-X", "nonsense=b"], {}, 'No such configuration property: "nonsense"'),  # 7
        (
            ["--agent", "ftp://x"],
            {},
            "'--agent' (env var: 'KSHADOW_AGENT'): expected a URL such as http://localhost:9308, got 'ftp://x'",
        ),  # 8
        (["--agent", "http://[x"], {}, "got 'http://[x'"),  # 9: no address
        (["--agent", "http://"], {}, "got 'http://'"),  # 10: no host
        (["--agent", "http://x:99999"], {}, "got 'http://x:99999'"),  # 11: no port
        (["--bootstrap-server", "\udcff:9092"], {}, "with commas between, got '\\udcff:9092'"),  # no text
        (["--bootstrap-server", "x", "-X", "sasl.password=p\udcff"], {}, "expected a property in UTF-8"),  # no text
        (
            ["--bootstrap-server", "x", "-X", "sasl.password=${PASSWORD}"],
            {"PASSWORD": "p\udcff"},
            "sasl.password: expected a text in UTF-8 in the environment variable PASSWORD",
        ),  # no text
        (["--agent", "http://x/?cluster=\udcff"], {}, "got 'http://x/?cluster=\\udcff'"),  # no text
        (["--agent", "localhost:9308"], {}, "got 'localhost:9308'"),  # 12: no scheme, as one would type it
        (["--from", ""], {}, "expected a file, a directory or -, got an empty text"),  # 13: not the working directory
        (["--from", "x" * 300], {}, "File name too long"),  # 14
    ],
)
def test_wrong_usage(arguments: list[str], env: dict[str, str], said: str) -> None:
    for command in (["groups"], ["describe", "g"], ["members", "g"]):
        result = kshadow(*command, *arguments, env=env)
        assert (result.exit_code, result.stdout) == (2, "")
        assert said in result.stderr


def test_a_source_on_the_command_line_wins_over_one_in_the_environment() -> None:
    env = {
        "KSHADOW_BOOTSTRAP_SERVER": "localhost:1",
        "KSHADOW_PROPERTY": "a=b c=d",
        "KSHADOW_AGENT": "http://localhost:1",
    }
    assert kshadow("groups", "--from", SEGMENTS, env=env).exit_code == 0
    assert kshadow("groups", env={"KSHADOW_FROM": str(SEGMENTS)}).exit_code == 0


def test_what_is_not_allowed_is_not_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    # As root nothing is forbidden: the errors that the sources raise, then, at the place that turns them into codes.
    for error, said in (
        (
            SourceDenied("Topic authorization failed", right="Describe on the topic"),
            "needed: Describe on the topic\n",
        ),
        (SourcePathError("/data: expected a readable directory"), "run kshadow as a user who may read it\n"),
    ):
        with pytest.raises(Exception, match="3") as raised, source_errors_reported():
            raise error from PermissionError(13, "Permission denied")
        assert getattr(raised.value, "exit_code", None) == 3
        assert capsys.readouterr().err.endswith(said)


def test_coordinator() -> None:
    for group in ("payments", "", "größe", "日本"):
        form = json.loads(kshadow("coordinator", group, "-o", "json").stdout)
        assert form == {
            "group": group,
            "partition": partition_for_group(group, 50),
            "partitions": 50,
            "partitioner": "kafka",
            "broker_id": None,
            "host": None,
            "port": None,
        }
    assert (
        json.loads(kshadow("coordinator", "g", "-o", "ndjson", "--offsets-partitions", "7").stdout)["partitions"] == 7
    )
    assert yaml.safe_load(kshadow("coordinator", "g", "-o", "yaml").stdout)["group"] == "g"
    assert lines(kshadow("coordinator", "payments")) == [
        "GROUP     PARTITION  OF  BROKER  HOST  PORT",
        f"payments  {partition_for_group('payments', 50):9d}  50       -     -     -",
    ]
    form = json.loads(kshadow("coordinator", "payments", "--group-partitioner", "redpanda", "-o", "json").stdout)
    assert (form["partition"], form["partitions"], form["partitioner"]) == (
        partition_for_group("payments", 16, GroupPartitioner.REDPANDA),
        16,
        "redpanda",
    )
    for options, number in ((["-o", "json"], "50"), (["--group-partitioner", "redpanda"], "16")):
        result = kshadow("coordinator", "g", *options)
        assert result.stderr.startswith(f"Warning: {number} partitions of __consumer_offsets are assumed, ")
    assert kshadow("coordinator", "g", "--offsets-partitions", "50").stderr == ""
    both = kshadow("coordinator", "g", "--offsets-partitions", "7", "--bootstrap-server", "x")
    assert (both.exit_code, "the broker knows" in both.stderr) == (2, True)
    env = {"KSHADOW_BOOTSTRAP_SERVER": "localhost:1"}
    assert kshadow("coordinator", "g", "--offsets-partitions", "7", env=env).exit_code == 0
    assert kshadow("coordinator", "g", "--offsets-partitions", "0").exit_code == 2
    for options in (["--workers", "2"], ["--property", "a=b"], ["--bootstrap-server", "x", "--workers", "2"]):
        useless = kshadow("coordinator", "g", *options)
        assert (useless.exit_code, " goes with --" in useless.stderr) == (2, True)


def test_coordinator_of_a_group_that_files_or_an_agent_have() -> None:
    partition_of = {
        row["group"]: row["coordinator_partition"]
        for row in json.loads(kshadow("groups", "--from", SEGMENTS, "-o", "json").stdout)
    }
    with served(Replayed(of_path(SEGMENTS))) as url:
        for source in (["--from", SEGMENTS], ["--agent", url]):
            for group in GROUPS:
                form = json.loads(kshadow("coordinator", group, *source, "-o", "json").stdout)
                assert {key: value for key, value in form.items() if value is not None} == {
                    "group": group,
                    "partition": partition_of[group],
                }
                assert wrong("coordinator", form) == []
            assert lines(kshadow("coordinator", "fraud-848", *source))[1].split()[2:] == ["-"] * 4
            unknown = kshadow("coordinator", "nope", *source)
            assert (unknown.exit_code, unknown.stdout) == (1, "")
            assert "no group 'nope'" in unknown.stderr
            assert kshadow("coordinator", "g", *source, "--offsets-partitions", "7").exit_code == 2
        assert kshadow("coordinator", "g", "--agent", url, "--from", SEGMENTS).exit_code == 2


def test_lines_need_not_name_a_partition(tmp_path: Path) -> None:
    path = ndjson(tmp_path / "x.ndjson", line(*b.new_group("g")))
    told = kshadow("coordinator", "g", "--from", path, "-o", "json")
    assert json.loads(told.stdout)["partition"] == 0
    assert told.stderr == "(that is what the lines say: one that names no partition counts as of partition 0)\n"


def test_a_segment_beside_its_directory_lacks_the_partition_alone(tmp_path: Path) -> None:
    form = json.loads(kshadow("describe", "fraud-848", "--from", SEGMENTS, "-o", "json").stdout)
    (segment,) = Path(SEGMENTS, f"__consumer_offsets-{form['coordinator_partition']}").glob("*.log")
    alone = shutil.copy(segment, tmp_path)
    told = kshadow("describe", "fraud-848", "--from", alone, "-o", "json")
    assert json.loads(told.stdout) == {**form, "coordinator_partition": None}
    result = kshadow("coordinator", "fraud-848", "--from", alone)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "Error: no name of a directory (__consumer_offsets-N) tells the partition; --bootstrap-server asks a broker\n"
    )


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("command", [["groups"], *(["describe", group] for group in GROUPS)], ids=" ".join)
def test_tables_fit_a_terminal(command: list[str]) -> None:
    for columns in (80, 132, 40, 1):
        text, code = on_terminal(*command, "--from", SEGMENTS, columns=columns, env={"NO_COLOR": "1"})
        assert code == 0
        assert "\x1b" not in text, "NO_COLOR"
        tables = [row for row in text.split("\n") if not row.startswith("(no room") and ": " not in row]
        if columns >= 40:
            assert max(map(len, tables)) <= columns
        assert not [row for row in tables if row != row.rstrip()]
        assert "Committed" in text or "GROUP" in text or columns == 1


@pytest.mark.usefixtures("process")
def test_headings_are_bold_on_a_terminal_alone() -> None:
    text, _ = on_terminal("groups", "--from", SEGMENTS)
    assert text.startswith("\x1b[1mGROUP ")
    assert text.count("\x1b") == 2
    dumb, _ = on_terminal("groups", "--from", SEGMENTS, env={"TERM": "dumb"})
    assert "\x1b" not in dumb


def test_an_unreadable_segment_is_said(tmp_path: Path) -> None:
    (tmp_path / "0.log").mkdir()
    result = kshadow("groups", "--from", tmp_path)
    assert result.exit_code == 1
    assert f"{tmp_path}/0.log: byte 0: unreadable: " in result.stderr
