"""Writes the rule files of chart and demo: `python -m tests.mixin.render`. jsonnet is one of `make tools`."""

from __future__ import annotations

from tests.mixin.rendering import PLACES, render
from tests.tools import find

if __name__ == "__main__":
    jsonnet = find("jsonnet")
    if jsonnet is None:
        raise SystemExit("jsonnet is not built: make tools TOOLS=jsonnet")
    for name, content in render(jsonnet).items():
        for place in PLACES:
            place.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(content, encoding="utf-8")
            print(place / name)
