"""What the build does where the compiled part cannot be built."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import hatch_build
from tests import ROOT
from tests.unit.common.test_compiled import App, build_data, hook

pytestmark = pytest.mark.usefixtures("process")

TAG = "manylinux_2_17_x86_64"


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root with the source, and a library of another."""
    (tmp_path / hatch_build.SOURCE).parent.mkdir(parents=True)
    (tmp_path / hatch_build.SOURCE).write_bytes((ROOT / hatch_build.SOURCE).read_bytes())
    (tmp_path / hatch_build.LIBRARY).write_bytes(b"of another source")
    monkeypatch.setattr(hatch_build, "platform_tags", lambda: iter([TAG]))
    return tmp_path


@pytest.mark.parametrize(
    ("compiler", "why"),
    [
        ((sys.executable, "-m", "no_such_compiler"), f"{sys.executable}: No module named no_such_compiler"),
        (("sh", "-c", "echo a note >&2; echo 'commits.c:1:1: error: no' >&2; exit 1"), "commits.c:1:1: error: no"),
        (("false",), "the compiler ended with 1"),
        (("/nonexistent/compiler",), "[Errno 2] No such file or directory: '/nonexistent/compiler'"),
    ],
)
def test_it_builds_a_pure_wheel_and_says_why(
    sources: Path, monkeypatch: pytest.MonkeyPatch, compiler: tuple[str, ...], why: str
) -> None:
    monkeypatch.setattr(hatch_build, "COMPILER", compiler)
    app, data = App(), build_data()
    hook(sources, app).initialize("standard", data)
    assert data == build_data()
    assert app.warnings == [f"kshadow is built without its compiled part: {why}"]
    assert [it.name for it in (sources / hatch_build.SOURCE).parent.iterdir()] == ["commits.c"], "no old library"


def test_what_the_compiler_writes_takes_the_librarys_place(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole of it at once; and it holds what it was built of."""
    monkeypatch.setattr(hatch_build, "COMPILER", ("sh", "-c", "cat commits.c built_of.c > commits.so"))
    app, data = App(), build_data()
    hook(sources, app).initialize("editable", data)
    assert app.warnings == []
    assert data["tag"] == f"py3-none-{TAG}"
    assert hatch_build.is_current(sources, TAG)
    assert {it.name for it in (sources / hatch_build.SOURCE).parent.iterdir()} == {"commits.c", "commits.so"}
