"""Where packages are, located and not imported: pyspark takes half a second."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def package_directory(name: str) -> Path | None:
    """The directory of an installed package; None where there is none."""
    spec = find_spec(name)
    places = (spec.submodule_search_locations or ()) if spec else ()
    return next((Path(place) for place in places if Path(place).is_dir()), None)
