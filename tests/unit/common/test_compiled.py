"""The compiled part is built, where it can be, of the source that is there."""

from __future__ import annotations

import ctypes
import platform
import sys
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import hatch_build
from agent.common import native
from tests import ROOT
from tests.generate.constraints_hashes import BUILD, pins
from tests.unit.core.packing import NEEDS_COMPILED


class App:
    """hatchling's, as far as the hook knows it."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def display_warning(self, text: str) -> None:
        self.warnings.append(text)


def hook(root: Path, app: App) -> hatch_build.Hook:
    return hatch_build.Hook(str(root), {}, None, None, "", "wheel", app)  # type: ignore[arg-type]


def build_data() -> dict[str, Any]:
    return {"pure_python": True, "artifacts": []}


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A root with the source alone."""
    (tmp_path / hatch_build.SOURCE).parent.mkdir(parents=True)
    (tmp_path / hatch_build.SOURCE).write_bytes((ROOT / hatch_build.SOURCE).read_bytes())
    return tmp_path


def put_library(root: Path, tag: str) -> None:
    """What the hook takes for one of this source."""
    content = hatch_build.digest((root / hatch_build.SOURCE).read_bytes(), tag)
    (root / hatch_build.LIBRARY).write_text(f"…{content}…")


@pytest.mark.skipif(
    (sys.platform, platform.machine()) not in {("linux", "x86_64"), ("linux", "aarch64")},
    reason="whether it is built elsewhere depends on the platform",
)
def test_it_is_there_and_loads() -> None:
    """Where it does not, `pip wheel -v --no-deps -w build .` says why it was not built."""
    tag = hatch_build.platform()
    assert tag is not None
    assert native.LIBRARY == ROOT / hatch_build.LIBRARY
    assert hatch_build.is_current(ROOT, tag), "of another source: pip wheel --no-deps -w build ."
    assert native.library() is not None


def test_the_compiler_is_the_same_everywhere() -> None:
    name, _, version = hatch_build.ZIG.partition("==")
    for file in (ROOT / "constraints.txt", BUILD):
        assert pins(file.read_text())[name] == version, file


def test_hatchling_runs_the_hook_and_asks_for_no_compiler_where_a_library_is_there() -> None:
    tag = hatch_build.platform()
    needed = [] if tag is None or hatch_build.is_current(ROOT, tag) else [hatch_build.ZIG]
    builder = WheelBuilder(str(ROOT))
    assert list(builder.config.hook_config) == ["custom"]
    assert builder.config.dependencies == needed


def test_the_source_distribution_can_build_it() -> None:
    held = {it.distribution_path for it in SdistBuilder(str(ROOT)).recurse_included_files()}
    assert {"hatch_build.py", hatch_build.SOURCE} <= held
    assert not [it for it in held if it.endswith(".so")]


def test_the_compiler_is_wanted_until_there_is_a_library_of_this_source(sources: Path) -> None:
    tag = hatch_build.platform() or pytest.skip("none is built for this platform")
    app = App()
    assert hook(sources, app).dependencies() == [hatch_build.ZIG]
    put_library(sources, tag)
    assert hook(sources, app).dependencies() == []
    data = build_data()
    hook(sources, app).initialize("standard", data)
    assert data == {"pure_python": False, "tag": f"py3-none-{tag}", "artifacts": [f"/{hatch_build.LIBRARY}"]}
    assert app.warnings == []
    with (sources / hatch_build.SOURCE).open("a") as file:
        file.write("/* changed */\n")
    assert hook(sources, app).dependencies() == [hatch_build.ZIG]


@pytest.mark.parametrize("tag", hatch_build.TARGETS)
def test_one_for_another_platform_does_not_count(sources: Path, tag: str) -> None:
    put_library(sources, tag)
    assert [it for it in hatch_build.TARGETS if hatch_build.is_current(sources, it)] == [tag]


def test_no_compiler_is_wanted_where_none_is_built(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hatch_build, "platform_tags", lambda: iter(["linux_riscv64", "win_amd64"]))
    put_library(sources, "manylinux_2_17_x86_64")
    app, data = App(), build_data()
    assert hook(sources, app).dependencies() == []
    hook(sources, app).initialize("standard", data)
    assert data == build_data(), "a pure wheel"
    assert app.warnings == ["kshadow is built without its compiled part: it is built for other platforms than this"]
    assert not (sources / hatch_build.LIBRARY).exists(), "that of another machine"


@NEEDS_COMPILED
def test_a_library_of_another_interface_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert native._load(ctypes.CDLL) is not None
    assert ctypes.sizeof(native.Run) == 152, "commits.c asserts the same"
    monkeypatch.setattr(native, "INTERFACE", native.INTERFACE + 1)
    assert native._load(ctypes.CDLL) is None
