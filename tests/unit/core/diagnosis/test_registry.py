"""Which analyzers there are, and that settings are checked before anything runs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.core.diagnosis.api import Settings, setting
from analyzers.registry import (
    AnalyzerConfigError,
    _with_setting,
    known_analyzers,
    parse_analyzer_names,
    select_analyzers,
)

NAMES = sorted(known_analyzers())


def test_the_contracts_analyzers_are_there() -> None:
    assert {
        "rebalance_storm",
        "unbalanced_assignment",
        "session_timeout",
        "poll_timeout",
        "idle_members",
        "stalled_consumer",
    } <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_says_its_rule_its_false_alarms_and_its_settings(name: str) -> None:
    from dataclasses import fields

    kind = known_analyzers()[name]
    assert len(kind.rule) > 20
    assert len(kind.false_alarms) > 20
    for field in fields(kind.settings_class):
        assert field.metadata["help"], f"{name}.{field.name} says what it is"
        assert field.default >= field.metadata["least"], f"{name}.{field.name}: its default is allowed"


def test_all_none_and_some() -> None:
    every = select_analyzers()
    assert len(every.makes) + len(every.cluster_analyzers) == len(NAMES)
    assert select_analyzers([]) == ((), ())
    (make,) = select_analyzers(["idle_members"]).makes
    assert make().name == "idle_members"


@pytest.mark.parametrize("names", ["", " ", ","])
def test_no_name_is_a_mistake_and_not_none(names: str) -> None:
    with pytest.raises(AnalyzerConfigError, match="expected all, none or names with commas, got"):
        parse_analyzer_names(names)


def test_a_setting_is_read_as_what_it_is() -> None:
    (make,) = select_analyzers(["session_timeout"], {"session_timeout.close_after_s": "12.5"}).makes
    assert make().settings.close_after_s == 12.5


@pytest.mark.parametrize(
    ("tuned", "message"),
    [
        ({"nothing.close_after_s": "1"}, "no analyzer is called 'nothing'; there are .*idle_members"),
        ({"idle_members.clos": "1"}, r"idle_members\.clos: no such setting; there are .*close_after_s"),
        ({"idle_members.close_after_s": "soon"}, r"idle_members\.close_after_s: expected a number, got 'soon'"),
        ({"idle_members.close_after_s": "nan"}, r"idle_members\.close_after_s: expected a number, got 'nan'"),
        ({"idle_members.close_after_s": "-1"}, r"idle_members\.close_after_s: expected at least 0, got -1"),
    ],
)
def test_a_setting_that_makes_no_sense(tuned: dict[str, str], message: str) -> None:
    with pytest.raises(AnalyzerConfigError, match=message):
        select_analyzers(tuning=tuned)


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd(Settings):
    """A third party's settings of other types."""

    loud: bool = setting(False, "whether to be loud")
    colour: str = setting("red", "which colour")


def test_settings_of_other_types() -> None:
    assert _with_setting(Odd(), "odd.loud", "loud", "True") == Odd(loud=True)
    assert _with_setting(Odd(), "odd.colour", "colour", "blue") == Odd(colour="blue")
    with pytest.raises(AnalyzerConfigError, match=r"odd\.loud: expected true or false, got 'perhaps'"):
        _with_setting(Odd(), "odd.loud", "loud", "perhaps")


def test_an_analyzer_that_does_not_exist() -> None:
    with pytest.raises(AnalyzerConfigError, match="no analyzer is called 'nothing'"):
        select_analyzers(["nothing"])


PLUGIN = """
from analyzers.api import Analyzer, Judgement

class Loud(Analyzer):
    name = "{name}"
    rule = "never, as an example of a third party"
    false_alarms = "none at all, it never fires"

    def judge(self, group):
        return Judgement()
"""


def installed(directory: Path, name: str, target: str) -> subprocess.CompletedProcess[str]:
    """Ask for the analyzers where a package of somebody else is installed, as an installer would leave it."""
    (directory / "loud_plugin.py").write_text(PLUGIN.format(name=name))
    info = directory / "loud_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loud-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[kshadow.analyzers]\nloud = {target}\n")
    code = f"import sys; sys.path.insert(0, {str(directory)!r}); from analyzers import registry; "
    code += "print(*registry.known_analyzers())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("process")
def test_a_third_partys_analyzer_is_found(tmp_path: Path) -> None:
    assert "loud" in installed(tmp_path, "loud", "loud_plugin:Loud").stdout.split()


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize(
    ("name", "target", "message"),
    [
        ("loud", "loud_plugin:PLUGIN", "entry point loud = loud_plugin:PLUGIN: AttributeError"),
        ("loud", "loud_plugin:Judgement", "expected a subclass of Analyzer"),
        ("idle_members", "loud_plugin:Loud", "there is an analyzer idle_members already"),
    ],
)
def test_a_third_partys_mistake_is_named(tmp_path: Path, name: str, target: str, message: str) -> None:
    asked = installed(tmp_path, name, target)
    assert asked.returncode != 0
    assert message in asked.stderr
