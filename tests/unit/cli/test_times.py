"""Times as people write them."""

from __future__ import annotations

import pytest

from agent.common.timespec import parse_range, parse_time
from tests.unit.cli.running import SEGMENTS, kshadow

NOW = 1_795_246_178_366  # 2026-11-21T07:29:38.366Z
HOUR = 3_600_000

# 1-15: what is a time.
TIMES = [
    ("15m", NOW - HOUR // 4),  # 1
    ("2h", NOW - 2 * HOUR),  # 2
    ("3d", NOW - 72 * HOUR),  # 3
    ("1h30m", NOW - HOUR * 3 // 2),  # 4
    ("1w", NOW - 168 * HOUR),  # 5
    ("90s", NOW - 90_000),  # 6
    ("250ms", NOW - 250),  # 7
    ("now", NOW),  # 8
    ("0", 0),  # 9
    (str(NOW), NOW),  # 10
    ("2026-11-21", 1_795_219_200_000),  # 11
    ("2026-11-21T07:29:38.366", NOW),  # 12: UTC unless told
    ("2026-11-21 07:29:38.366Z", NOW),  # 13
    ("2026-11-21T08:29:38.366+01:00", NOW),  # 14
    (" 2026-11-21T07:29 ", NOW - 38_366),  # 15
    ("0001-01-01T00:00:00+23:00", -62_135_679_600_000),  # 16: before the first day, as UTC
]


@pytest.mark.parametrize(("text", "at_ms"), TIMES)
def test_times(text: str, at_ms: int) -> None:
    assert parse_time(text).before(NOW) == at_ms


# 1-10: what is none.
WRONG = [
    "",
    "soon",
    "2h ago",
    "-2h",
    "15",
    "1795246178",
    "99999999999999999999",
    "10:02",
    "2026-13-01",
    "\uff12h",
    "h",
    "2y",
]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected a duration before now .*, got .*"):
        parse_time(text)


def test_ranges() -> None:
    assert parse_range(None, None, NOW) == (None, None)
    assert parse_range("2h", "1h", NOW) == (NOW - 2 * HOUR, NOW - HOUR)
    assert parse_range("1h", "1h", NOW) == (NOW - HOUR, NOW - HOUR)
    with pytest.raises(ValueError, match="ends before it begins"):
        parse_range("1h", "2h", NOW)


@pytest.mark.parametrize("command", [["timeline", "pricing-poll"], ["explain", "pricing-poll"], ["findings"]])
def test_at_the_prompt(command: list[str]) -> None:
    for options, said in (
        (["--since", "soon"], "Invalid value for '--since'"),
        (["--until", "15"], "or a duration without its unit?"),
        (["--since", "1h", "--until", "2h"], "Error: the range ends before it begins"),
    ):
        result = kshadow(*command, "--from", SEGMENTS, *options)
        assert (result.exit_code, result.stdout) == (2, "")
        assert said in " ".join(result.stderr.split())
    by_variable = kshadow(*command, "--from", SEGMENTS, env={"KSHADOW_SINCE": "1x"})
    assert (by_variable.exit_code, "--since" in by_variable.stderr) == (2, True)


@pytest.mark.parametrize("command", [["timeline", "pricing-poll"], ["findings"]])
def test_a_range_that_begins_before_1970_lacks_nothing(command: list[str]) -> None:
    result = kshadow(*command, "--from", SEGMENTS, "--since", "30000d", "-o", "json")
    assert (result.exit_code, result.stderr) == (0, "")


def test_in_the_file(tmp_path: object) -> None:
    path = f"{tmp_path}/kshadow.yaml"
    with open(path, "w", encoding="utf-8") as file:
        file.write("since: 1h\ngroup: [ads-eos]\n")
    assert kshadow("--config", path, "findings", "--from", SEGMENTS).exit_code == 0
    assert kshadow("--config", path, "timeline", "ads-eos", "--from", SEGMENTS).exit_code == 0
