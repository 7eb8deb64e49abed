"""The example of an analyzer, installed as an installer would leave it, into a directory of its own."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

from tests import ROOT

SOURCE = ROOT / "docs" / "examples" / "understaffed"


def install(directory: Path) -> Path:
    """Its modules, and what its `pyproject.toml` says of it, as metadata. No network, and no builder needed."""
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text(encoding="utf-8"))
    for module in project["tool"]["setuptools"]["py-modules"]:
        shutil.copy(SOURCE / f"{module}.py", directory)
    name, version = project["project"]["name"], project["project"]["version"]
    info = directory / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    rows = [
        text
        for group, entries in project["project"]["entry-points"].items()
        for text in (f"[{group}]", *(f"{entry} = {target}" for entry, target in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return directory
