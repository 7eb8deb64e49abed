"""Writes the rule files of chart and demo: `python -m tests.generate.mixin`. jsonnet is one of `make tools`."""

from __future__ import annotations

from tests.harness.tools import find
from tests.live.helm.mixin.rendering import PLACES, render

if __name__ == "__main__":
    jsonnet = find("jsonnet")
    if jsonnet is None:
        raise SystemExit("jsonnet is not built: make tools TOOLS=jsonnet")
    for name, content in render(jsonnet).items():
        for place in PLACES:
            place.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(content, encoding="utf-8")
            print(place / name)
