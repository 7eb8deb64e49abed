"""docs/machines.md: its tables are those of the code, and each command line on it does what it says there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from agent.cli.commands import LISTINGS
from tests import ROOT
from tests.generate.schemas import PAGE, page
from tests.unit.cli.running import SEGMENTS, kshadow
from tests.unit.presentation.schemas.shell import pipelines, run
from tests.unit.presentation.schemas.test_schemas import LOG

TEXT = PAGE.read_text(encoding="utf-8")
DATA = "/var/lib/kafka/data"


class Recipe(NamedTuple):
    """What it is for, and its command lines."""

    title: str
    commands: list[list[str]]


def recipes() -> Iterator[Recipe]:
    """Each recipe of the page."""
    part = TEXT.partition("## Recipes")[2]
    for title, block in re.findall(r"^([^\n`][^\n]*?):?\n\n```sh\n(.*?)```$", part, re.MULTILINE | re.DOTALL):
        yield Recipe(title, list(pipelines(block)))


RECIPES = list(recipes())

# By how the title begins: what is in the result on the real log of the tests, or, of some, on the whole capture only.
EXPECTED = {
    "Rebalances of each group by cause": '{"group": "ads-eos", "rebalances": ',
    "Which members timed out most often": "1\tgeo-stream\tgeo-stream-0-StreamThread-1-consumer\t/127.0.0.1\tsession",
    "For how long rebalances stopped partitions": '"2026-11-21","fraud-848",',
    "The five most expensive rebalances": '"cause": "member_joined", "stopped_s": ',
    "Findings as CSV": '"info","session_timeout","geo-stream",',
    "The last generation of each group": '"ads-eos": ',
    "Causes with a confidence below 0.9": '"cause": "unknown_departure"',
    "Rebalances in each minute": '{"minute": "2026-11-21T07:28:00Z", "rebalances": ',
    "Clients that joined more than once": "\t2\t1\n",
    "Duration of the groups' sync phases": '"median_ms": ',
    "Groups that lost all their members": "group_emptied\tgeo-stream\n",
    "also compares two copies": '"analyzer": "session_timeout"',
    "Partitions of each member of a group": "\tfraud-848-",
    "Groups without members that still have offsets": "geo-stream\t",
    "Raw commits of one group": '"orders", ',
    "A CI job that fails": "true\n",
    "The settings that save most rebalances": "\t",
}
OF_THE_CAPTURE = ("Clients that joined more than once", "also compares two copies")


def test_the_tables_are_those_of_the_code() -> None:
    assert page(TEXT) == TEXT, "run python -m tests.generate.schemas"


def test_fields_that_are_minus_one_are_named() -> None:
    schema = json.loads((ROOT / "agent/presentation/schemas/v1/describe.json").read_text(encoding="utf-8"))
    group = schema["$defs"]["describe"]["properties"]
    said = [name for name, of in group.items() if "-1" in of.get("description", "")]
    assert re.findall(r"but for a group's `(\w+)` and `(\w+)`, which are\s-1", TEXT) == [tuple(said)]


def test_there_are_recipes() -> None:
    assert len(RECIPES) >= 10
    assert TEXT.partition("## Recipes")[2].count("```sh") == len(RECIPES)
    for beginning in EXPECTED:
        assert [it for it in RECIPES if it.title.startswith(beginning)], beginning


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda it: it.title[:40])
def test_recipes_give_what_they_say(recipe: Recipe, tmp_path: Path) -> None:
    (expected,) = (text for beginning, text in EXPECTED.items() if recipe.title.startswith(beginning))
    if LOG == SEGMENTS and recipe.title.startswith(OF_THE_CAPTURE):
        pytest.skip("the captures are not beside the checkout (../shared)")
    out = ""
    for log in dict.fromkeys((SEGMENTS, LOG)):
        for words in recipe.commands:
            ran = run(words, {"/tmp/": f"{tmp_path}/", DATA: str(log)})
            assert set(ran.codes) == {0}, ran.said
            out += ran.out
    assert expected in out


CODES = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.partition("## Exit codes")[2].partition("\n## ")[0].splitlines()
    if re.match(r"\| [`a].*\| [0-9]", line)
]


@pytest.mark.parametrize("row", [row for row in CODES if row[3]], ids=lambda row: f"{row[0]} {row[1]}")
def test_exit_codes(row: list[str], tmp_path: Path) -> None:
    (tmp_path / "damaged.ndjson").write_text('{"key": "00ff", "value": null}\n', encoding="ascii")
    (tmp_path / "settings.yaml").write_text("kind: ConfigMap\n", encoding="ascii")
    (tmp_path / "wrong.yaml").write_text("lagg: false\n", encoding="ascii")
    _, code, _, command = row
    (words,) = pipelines(command.strip("`"))
    ran = run(words, {"/tmp/": f"{tmp_path}/", DATA: str(SEGMENTS)})
    assert ran.codes == (int(code),), ran.said


def test_every_code_is_in_the_table() -> None:
    assert {row[1] for row in CODES} == {"0", "1", "2", "3", "129", "130", "143"}
    named = {word for row in CODES for word in re.findall(r"`([a-z]+)", row[0])}
    assert named <= set(LISTINGS)


def test_other_command_lines_on_the_page() -> None:
    rest = TEXT.partition("## Recipes")[0].partition("## Exit codes")
    for text in re.findall(r"`(kshadow schema[^`]*)`", rest[0] + rest[2]):
        assert kshadow(*text.split()[1:]).exit_code == 0, text
