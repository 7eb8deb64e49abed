"""`kshadow decode`: every record, in Kafka's own words, and nothing dropped."""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.cli.text import json_text
from agent.core.wire.offset_commit_fastpath import commit_key, commit_value
from agent.core.wire.primitives import Uuid
from agent.runtime.decoding import decoded, decoded_lines
from tests.unit.cli.running import DATA, SEGMENTS, kshadow, lines, ndjson, on_terminal
from tests.unit.core.shadow import build as b
from tests.unit.core.wire.vectors import ALL_OWN, CAPTURE, VECTORS, needs
from tests.unit.presentation.schemas.strict import wrong

VECTOR_FILES = [
    *(pytest.param(path, id=f"own-{path.stem}") for path in ALL_OWN),
    pytest.param(VECTORS, id="shared", marks=needs(VECTORS)),
]
DUMPS = [
    pytest.param(SEGMENTS, DATA / "dump.ndjson.gz", 355, 34, id="own"),
    pytest.param(CAPTURE / "segments", CAPTURE / "dump.ndjson.gz", 12_066, 906, id="shared", marks=needs(CAPTURE)),
]
GROUP_KEY, GROUP_VALUE = b.classic_group(1, b.member("m-1", {"t": [0]}), group="g")


def line(key: bytes | None, value: bytes | None, **more: object) -> str:
    return json.dumps(
        {"key": None if key is None else key.hex(), "value": None if value is None else value.hex(), **more}
    )


@pytest.mark.parametrize("path", VECTOR_FILES)
def test_raw_payloads_are_what_kafkas_classes_print(path: Path) -> None:
    expected = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    result = kshadow("decode", "--payloads", "raw", path)
    assert (result.exit_code, result.stderr) == (0, "")
    got = [json.loads(text) for text in lines(result)]
    assert len(got) == len(expected)
    for number, (row, vector) in enumerate(zip(got, expected, strict=True)):
        if "bytes" in vector:
            assert row == {"line": number + 1, "name": vector["name"], **vector["expect"]}
        else:
            assert row == {"partition": 0, "offset": number, "timestamp": -1, **vector["expect"]}


@pytest.mark.parametrize(("path", "dump", "records", "markers"), DUMPS)
def test_segments_are_what_the_dump_tool_prints(path: Path, dump: Path, records: int, markers: int) -> None:
    with gzip.open(dump, "rt", encoding="utf-8") as file:
        expected = {(row["partition"], row["offset"]): row for row in map(json.loads, file)}
    result = kshadow("decode", path)
    assert (result.exit_code, result.stderr) == (0, "")
    got = [json.loads(text) for text in lines(result)]
    assert len(got) == len(expected) == records
    assert sum("control" in row for row in got) == markers
    different = [row for row in got if _as_dumped(row) != expected[row["partition"], row["offset"]]]
    assert different == []
    assert [(row["partition"], row["offset"]) for row in got] == sorted(expected)


def _as_dumped(row: dict[str, Any]) -> dict[str, Any]:
    place = {name: row[name] for name in ("partition", "offset", "timestamp")}
    if "control" in row:
        return {**place, "raw": f"endTxnMarker: {row['control'].upper()} coordinatorEpoch: {row['coordinatorEpoch']}"}
    assert isinstance(row["key"]["type"], int)
    key = {**row["key"], "type": str(row["key"]["type"])}
    if row["value"] is None:
        return {**place, "key": key, "value": None}
    value = json.loads(json.dumps(row["value"]))
    assert isinstance(value["version"], int)
    value["version"] = str(value["version"])
    for member in value["data"].get("members", ()):
        for payload in ("subscription", "assignment"):
            # `version` is ours; empty bytes are no payload and stay base64.
            assert member[payload] == "" or member[payload].pop("version") in (0, 1, 2, 3)
    return {**place, "key": key, "value": value}


def test_every_format_says_the_same() -> None:
    rows = [json.loads(text) for text in lines(kshadow("decode", SEGMENTS))]
    assert json.loads(kshadow("decode", SEGMENTS, "-o", "json").stdout) == rows
    assert yaml.safe_load(kshadow("decode", SEGMENTS, "-o", "yaml").stdout) == rows
    assert len(lines(kshadow("decode", SEGMENTS, "-o", "table"))) == len(rows) + 1


def test_json_is_laid_out_as_pythons(tmp_path: Path) -> None:
    path = ndjson(tmp_path / "two.ndjson", line(*b.commit()), line(*b.new_group()))
    text = kshadow("decode", path, "-o", "json").stdout
    assert text == json.dumps(json.loads(text), indent=2) + "\n"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("json", "[]\n"),  # 1: still JSON
        ("ndjson", ""),  # 2: no line is none
        ("yaml", "[]\n"),  # 3: still a list
        ("table", ""),  # 4: the sentence is no data
    ],
)
def test_no_records(output: str, expected: str) -> None:
    result = kshadow("decode", "-", "-o", output, stdin="\n")
    assert (result.exit_code, result.stdout) == (0, expected)
    assert result.stderr == ("no records\n" if output == "table" else "")


# 1-8: what cannot be decoded is printed in its place, with the reason and the bytes there are.
BAD = [
    pytest.param(line(b"\x00\x63", b""), "unknown_key_type", "0063", "", id="1 a key type of the future"),
    pytest.param(line(GROUP_KEY, b"\x00\x09"), "unknown_version", GROUP_KEY.hex(), "0009", id="2 a value's"),
    pytest.param(line(GROUP_KEY[:-1], None), "truncated", GROUP_KEY[:-1].hex(), None, id="3 a key cut short"),
    pytest.param(line(GROUP_KEY + b"x", None), "trailing_bytes", GROUP_KEY.hex() + "78", None, id="4 too long"),
    pytest.param(line(None, b"\x00"), "invalid", None, "00", id="5 no key"),
    pytest.param(line(b"", b"", control=True), "truncated", "", "", id="6 a marker without content"),
    pytest.param("{", "bad_line", None, None, id="7 no JSON"),
    pytest.param('{"key": "0x"}', "bad_line", None, None, id="8 no hex"),
]


@pytest.mark.parametrize(("text", "kind", "key_hex", "value_hex"), BAD)
def test_what_cannot_be_decoded(text: str, kind: str, key_hex: str | None, value_hex: str | None) -> None:
    good = line(GROUP_KEY, GROUP_VALUE)
    result = kshadow("decode", "-", stdin=f"{good}\n{text}\n{good}\n")
    assert result.exit_code == 1
    assert result.stderr == '1 record or piece could not be decoded: in the output with the reason, under "error"\n'
    first, bad, last = (json.loads(it) for it in lines(result))
    assert first["key"] == last["key"]
    assert (bad["error"]["kind"], bad["keyHex"], bad["valueHex"]) == (kind, key_hex, value_hex)
    assert bad["error"]["message"]
    assert bad.get("offset", 1) in (1, None)


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        ({"name": "ConsumerProtocolSubscription", "bytes": "0000"}, "truncated"),  # 1: cut short
        ({"name": "Unheard", "bytes": "0000"}, "unknown_payload"),  # 2: nobody knows how to read it
        ({"bytes": "0000"}, "unknown_payload"),  # 3: nor without a name
    ],
)
def test_a_payload_alone_that_cannot_be_decoded(payload: dict[str, str], kind: str) -> None:
    result = kshadow("decode", "-", stdin=json.dumps(payload))
    (row,) = (json.loads(it) for it in lines(result))
    assert (result.exit_code, row["line"], row["error"]["kind"], row["valueHex"]) == (1, 1, kind, "0000")


def test_a_payload_alone_as_a_table() -> None:
    payload = '{"name": "ConsumerProtocolAssignment", "bytes": "000000000000ffffffff"}'
    table = kshadow("decode", "-", "-o", "table", stdin=payload)
    assert (table.exit_code, table.stderr) == (0, "")
    expected = "- - - ConsumerProtocolAssignment v0 assignedPartitions=[] userData=null"
    assert " ".join(lines(table)[1].split()) == expected


def test_lines_in_are_lines_out() -> None:
    texts = [str(it.values[0]) for it in BAD] * 3
    result = kshadow("decode", "-", stdin="\n".join(texts))
    assert len(lines(result)) == len(texts)
    assert result.stderr.startswith("24 records or pieces could not be decoded")
    table = kshadow("decode", "-", "-o", "table", stdin="\n".join(texts))
    assert (table.exit_code, len(lines(table))) == (1, len(texts) + 1)


def test_a_torn_segment_keeps_what_precedes(tmp_path: Path) -> None:
    whole = (SEGMENTS / "__consumer_offsets-42" / "00000000000000000000.log").read_bytes()
    directory = tmp_path / "__consumer_offsets-42"
    directory.mkdir()
    segment = directory / "00000000000000000000.log"
    segment.write_bytes(whole[:-20])
    every = lines(kshadow("decode", SEGMENTS / "__consumer_offsets-42"))
    for path in (segment, directory, tmp_path):
        result = kshadow("decode", path)
        got = lines(result)
        assert result.exit_code == 1
        assert 1 < len(got) <= len(every)
        assert got[:-1] == every[: len(got) - 1]
        torn = json.loads(got[-1])
        assert (torn["partition"], torn["file"], torn["error"]["kind"]) == (42, str(segment), "torn")
        assert torn["error"]["message"].startswith(f"{segment}: byte {torn['byte']}, offset {torn['offset']}: torn: ")
        assert (
            result.stderr == '1 record or piece could not be decoded: in the output with the reason, under "error"\n'
        )


def test_a_damaged_batch_has_a_row_where_it_is(tmp_path: Path) -> None:
    """As its records would: those behind it follow."""
    whole = (SEGMENTS / "__consumer_offsets-14" / "00000000000000000000.log").read_bytes()
    second = 12 + int.from_bytes(whole[8:12])
    directory = tmp_path / "__consumer_offsets-14"
    directory.mkdir()
    segment = directory / "00000000000000000000.log"
    segment.write_bytes(whole[: second + 80] + b"\xff" + whole[second + 81 :])
    every = [json.loads(it) for it in lines(kshadow("decode", SEGMENTS / "__consumer_offsets-14"))]
    result = kshadow("decode", segment)
    got = [json.loads(it) for it in lines(result)]
    (at,) = (number for number, row in enumerate(got) if "error" in row)
    damaged = got.pop(at)
    first_behind = damaged["offset"] + len(every) - len(got)
    assert got == [row for row in every if not damaged["offset"] <= row["offset"] < first_behind]
    assert (at, damaged["byte"], damaged["error"]["kind"]) == (damaged["offset"], second, "crc")
    assert wrong("record", damaged) == []
    table = kshadow("decode", segment, "-o", "table")
    assert (table.exit_code, len(lines(table))) == (1, len(got) + 2)
    assert f"damaged from byte {second}" in table.stdout


def test_zeros_behind_the_log_are_no_damage(tmp_path: Path) -> None:
    whole = (SEGMENTS / "__consumer_offsets-14" / "00000000000000000000.log").read_bytes()
    segment = tmp_path / "0.log"
    segment.write_bytes(whole + bytes(4096))
    result = kshadow("decode", segment)
    assert (result.exit_code, result.stderr, len(lines(result))) == (0, "", 15)
    assert json.loads(lines(result)[0])["partition"] == -1, "the directory does not say which"


@pytest.mark.parametrize("command", [["decode"], ["replay"], ["groups", "--from"], ["describe", "g", "--from"]])
def test_paths_without_records(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "d.ndjson").mkdir()
    (tmp_path / "other.txt").touch()
    # 1-4: each says what was expected, what came, and where.
    for path, came in (
        (tmp_path / "nothing", "got nothing"),
        (tmp_path / "d.ndjson", "Is a directory"),
        (tmp_path, "got neither"),
        (tmp_path / "other.txt", "a file of another kind"),
        (tmp_path / "no.ndjson", "No such file"),
    ):
        result = kshadow(*command, path)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"Error: {path}: expected" in result.stderr
        assert came in result.stderr


def test_nothing_is_printed_before_every_path_was_looked_at(tmp_path: Path) -> None:
    result = kshadow("decode", SEGMENTS, tmp_path / "nothing")
    assert (result.exit_code, result.stdout) == (2, "")


def test_several_paths_and_standard_input(tmp_path: Path) -> None:
    one = ndjson(tmp_path / "one.ndjson", line(*b.new_group("one")))
    result = kshadow("decode", one, "-", one, stdin=line(*b.new_group("two")))
    assert [json.loads(it)["key"]["data"]["group"] for it in lines(result)] == ["one", "two", "one"]


@pytest.mark.usefixtures("process")
def test_the_table_on_a_terminal() -> None:
    text, code = on_terminal("decode", SEGMENTS, "-o", "table")
    assert code == 0
    rows = text.split("\n")
    assert max(map(len, rows[1:])) <= 80
    assert "pricing-poll" in text
    assert text.rstrip().endswith("(no room at 80 columns for TIMESTAMP; a wider terminal or -o wide shows all)")
    assert text.count("transaction marker") == 34
    wide, _ = on_terminal("decode", SEGMENTS, "-o", "table", columns=200)
    assert "TIMESTAMP" in wide


@pytest.mark.parametrize("path", VECTOR_FILES)
def test_lines_are_the_rows(path: Path) -> None:
    """Commits are written without making rows of them."""
    assert list(decoded_lines(str(path), expand=True, to_text=json_text)) == [
        (json_text(row), "error" not in row) for row in decoded(str(path), expand=True)
    ]


def test_lines_of_commits_of_strangers(tmp_path: Path) -> None:
    """Each fixed layout, under keys that are refused, long, or not for every terminal, and as a marker."""
    values = [
        commit_value(7, b.T0, 3),
        commit_value(7, -1, topic_id=Uuid(bytes(range(16)))),
        b"\0\3" + commit_value(7, b.T0)[2:14] + bytes(10),
    ]
    keys = [
        commit_key("g\x1b[31m\u202e\N{ROCKET}", '"t\\', 2),
        commit_key("g" * 2_000, "t", 0),
        b"\0\0" + commit_key("g", "t", 0)[2:],
        commit_key("g", "t", 0)[:-1],
        b"\0\x63",
        None,
    ]
    path = tmp_path / "it.ndjson"
    both = [(key, value) for key in keys for value in values]
    texts = [line(key, value, control=control) for key, value in both for control in (False, True)]
    path.write_text("\n".join(texts), encoding="utf-8")
    for ascii_only in (False, True):
        to_text = partial(json_text, ascii_only=ascii_only)
        found = list(decoded_lines(str(path), expand=True, to_text=to_text))
        rows = list(decoded(str(path), expand=True))
        assert found == [(to_text(row), "error" not in row) for row in rows]
        assert {is_sound for _, is_sound in found} == {False, True}
