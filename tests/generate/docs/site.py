"""The documentation as a website, in `build/docs/site`: `python -m tests.generate.docs.site`.

Zensical builds it from `build/docs/pages`: the pages of docs/, and under `project/` each file of the repository that
they link to, with links that lead there. The build is strict: a link or an anchor that leads nowhere fails it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests import ROOT
from tests.generate.docs.markdown import links

DOCS = ROOT / "docs"
CONFIG = Path(__file__).with_name("zensical.toml")
OUTSIDE = "project"


def place(source: Path) -> Path:
    """Where a file of the repository is in the site."""
    return source.relative_to(DOCS) if source.is_relative_to(DOCS) else OUTSIDE / source.relative_to(ROOT)


def sources() -> list[Path]:
    """Every file of docs/, and every file that they link to, directly or over other pages."""
    found = [path for path in sorted(DOCS.rglob("*")) if path.is_file()]
    seen = set(found)
    for source in found:
        if source.suffix == ".md":
            new = [there for _, there, _ in _inner_links(source) if there not in seen]
            found += dict.fromkeys(new)
            seen.update(new)
    return found


def stage(into: Path) -> None:
    """Copy `sources()` to their places; links of pages are changed to lead there."""
    shutil.rmtree(into, ignore_errors=True)
    for source in sources():
        target = into / place(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix != ".md":
            shutil.copyfile(source, target)
            continue
        text = source.read_text(encoding="utf-8")
        for written, there, anchor in _inner_links(source):
            new = os.path.relpath(into / place(there), target.parent) + anchor
            text = re.sub(rf"(?<=[(\"]){re.escape(written)}(?=[)\"])", new, text)
        target.write_text(text, encoding="utf-8")


def _inner_links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """Each link to another file of the repository: as written, the file (of a directory its README), the anchor."""
    for target in dict.fromkeys(link.target for link in links(page)):
        path, sign, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            continue
        there = (page.parent / path).resolve()
        yield target, there / "README.md" if there.is_dir() else there, sign + anchor


def zensical(directory: Path) -> subprocess.CompletedProcess[str]:
    """Build `directory`/site from `directory`/pages."""
    shutil.copyfile(CONFIG, directory / CONFIG.name)
    program = Path(sys.executable).with_name("zensical")
    command = [program, "build", "--clean", "--strict", "--config-file", directory / CONFIG.name]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def in_navigation() -> list[str]:
    """The pages that the navigation names, in its order."""

    def leaves(node: object) -> Iterator[str]:
        match node:
            case str():
                yield node
            case dict() | list():
                for inner in node.values() if isinstance(node, dict) else node:
                    yield from leaves(inner)

    return list(leaves(tomllib.loads(CONFIG.read_text(encoding="utf-8"))["project"]["nav"]))


def build(directory: Path) -> subprocess.CompletedProcess[str]:
    """Stage and build. The returncode is not 0 where a link or an anchor leads nowhere."""
    stage(directory / "pages")
    return zensical(directory)


def main() -> int:
    """Build, and say where."""
    directory = ROOT / "build" / "docs"
    done = build(directory)
    print(done.stdout + done.stderr)
    if done.returncode == 0:
        print(f"{directory / 'site' / 'index.html'}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
