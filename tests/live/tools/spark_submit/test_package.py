"""The archive of our code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from agent.tools.spark_submit import package
from agent.tools.spark_submit.errors import SubmitError
from agent.tools.spark_submit.package import PACKAGES, build, contents
from tests import ROOT


def test_all_that_is_needed_and_no_more(tmp_path: Path) -> None:
    code = build(tmp_path / "cache")
    with zipfile.ZipFile(code.archive) as archive:
        names = archive.namelist()
        assert archive.testzip() is None
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert (
            archive.read("agent/tools/spark_submit/jobs.py")
            == (ROOT / "agent/tools/spark_submit/jobs.py").read_bytes()
        )
    wanted = [str(it.relative_to(ROOT)) for name in PACKAGES for it in (ROOT / name).rglob("*.py")]
    data = [
        *(f"{name}/py.typed" for name in PACKAGES),
        *(f"agent/tools/demo/prometheus/{it}.yaml" for it in ("alerts", "rules")),
        *(str(it.relative_to(ROOT)) for it in (ROOT / "agent/serving/page/static").iterdir()),
        *(str(it.relative_to(ROOT)) for it in (ROOT / "agent/presentation/schemas/v1").iterdir()),
        *(str(it.relative_to(ROOT)) for it in (ROOT / "agent/presentation").rglob("*.css")),
        *(str(it.relative_to(ROOT)) for it in (ROOT / "agent/tools/embedded/pinned").iterdir()),
        "agent/history/report/page/style.css",
    ]
    assert names == sorted(wanted + data)
    assert code.main.read_bytes() == (ROOT / "spark_jobs" / "main.py").read_bytes()
    assert code.main.parent != ROOT / "spark_jobs", "it is run beside no module of ours"


def test_the_same_content_is_the_same_bytes_in_the_same_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = build(tmp_path / "1"), build(tmp_path / "2")
    assert one.archive.read_bytes() == two.archive.read_bytes()
    assert one.archive.parent.name == two.archive.parent.name
    before = one.archive.stat()
    assert build(tmp_path / "1") == one
    assert one.archive.stat() == before, "it is made once"
    copy = tmp_path / "analyzers"
    shutil.copytree(ROOT / "analyzers", copy)
    (copy / "more.json").write_text("{}")
    folder = package._folder
    monkeypatch.setattr(package, "_folder", lambda name: copy if name == "analyzers" else folder(name))
    other = build(tmp_path / "1")
    assert other.archive.parent != one.archive.parent
    assert "analyzers/more.json" in zipfile.ZipFile(other.archive).namelist()
    assert {it.name for it in (tmp_path / "1").iterdir()} == {it.archive.parent.name for it in (one, other)}


def test_what_is_no_source_stays_out(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    (folder / "__pycache__").mkdir(parents=True)
    for name in ("a.py", "py.typed", "NOTES.md", "a.c", "a.so", "__pycache__/a.cpython-311.pyc"):
        (folder / name).write_text(name)
    assert contents([folder]) == {"agent/a.py": b"a.py", "agent/py.typed": b"py.typed"}


def test_many_at_once_make_one(tmp_path: Path) -> None:
    program = "from pathlib import Path; from agent.tools.spark_submit.package import build; "
    program += f"print(build(Path({str(tmp_path)!r})))"
    made = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=ROOT) for _ in range(4)]
    said = {it.communicate()[0] for it in made}
    assert [it.returncode for it in made] == [0] * 4
    assert len(said) == 1
    (only,) = tmp_path.iterdir()
    assert zipfile.ZipFile(only / "kshadow.zip").testzip() is None


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SubmitError, match=r"cannot write .*; set KSHADOW_CACHE to a directory of yours"):
        build(tmp_path / "file")


def test_a_package_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(package, "PACKAGES", ("agent", "no_such_package"))
    with pytest.raises(SubmitError, match="the package no_such_package is not installed as files"):
        build(tmp_path)


def test_from_a_wheels_layout(tmp_path: Path) -> None:
    """Copies in a directory of their own, as an installer leaves them, seen by an interpreter without this tree."""
    python, site = isolated(tmp_path)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, site / name, ignore=shutil.ignore_patterns("__pycache__"))
    program = "from pathlib import Path; from agent.tools.spark_submit.package import build; "
    program += f"build(Path({str(tmp_path / 'c')!r}))"
    subprocess.run([python, "-I", "-c", program], check=True, cwd=tmp_path)
    mine = build(tmp_path / "mine")
    (theirs,) = (tmp_path / "c").iterdir()
    assert theirs.name == mine.archive.parent.name
    assert (theirs / "kshadow.zip").read_bytes() == mine.archive.read_bytes()


def isolated(directory: Path) -> tuple[Path, Path]:
    """An interpreter that has what we need installed, but not us; and its directory of packages."""
    import msgspec

    home = directory / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    (site,) = (home / "lib").glob("python3*/site-packages")
    # Files .pth in there are not looked at: an editable install of ours stays unseen.
    (site / "others.pth").write_text(os.path.dirname(os.path.dirname(msgspec.__file__)) + "\n")
    python = home / "bin" / "python"
    seen = subprocess.run(
        [python, "-I", "-c", "import msgspec, agent"], capture_output=True, text=True, cwd=directory
    )
    assert "No module named 'agent'" in seen.stderr
    return python, site
