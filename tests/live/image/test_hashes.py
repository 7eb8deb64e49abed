"""The files that the image's build takes hashes from are those of `constraints.txt` and `pyproject.toml`."""

from __future__ import annotations

from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests import ROOT
from tests.generate.constraints_hashes import BUILD, BUILT_WITH, EXTRAS, HASHES, hashes, normalized, pins

PINNED = pins((ROOT / "constraints.txt").read_text())


def needed(name: str, extras: tuple[str, ...], seen: set[tuple[str, tuple[str, ...]]]) -> set[str]:
    """What a distribution needs here, with what that needs, by their names."""
    if (name, extras) in seen:
        return set()
    seen.add((name, extras))
    out = {name}
    for text in requires(name) or ():
        it = Requirement(text)
        if it.marker is None or any(it.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            out |= needed(normalized(it.name), tuple(sorted(it.extras)), seen)
    return out


@pytest.mark.parametrize("file", [HASHES, BUILD], ids=lambda it: it.name)
def test_each_is_pinned_as_everywhere_and_has_hashes(file: Path) -> None:
    text = file.read_text()
    found = pins(text)
    assert found.items() <= PINNED.items(), "python -m tests.generate.constraints_hashes"
    assert [name for name, all_of_it in hashes(text).items() if not all_of_it] == []
    assert hashes(text).keys() == found.keys()


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_nothing_is_missing(extra: str) -> None:
    assert needed("kshadow", (extra,), set()) - {"kshadow"} <= pins(HASHES.read_text()).keys()


def test_what_builds_it_is_there() -> None:
    assert {normalized(it) for it in BUILT_WITH} <= pins(BUILD.read_text()).keys()
