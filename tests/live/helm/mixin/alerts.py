"""The alerts of the chart, as they are rendered."""

from __future__ import annotations

from typing import Any

import yaml

from tests.live.helm.mixin.rendering import FILES

GROUPS: dict[str, list[dict[str, Any]]] = {
    group["name"]: group["rules"]
    for group in yaml.safe_load((FILES / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
}
ALERTS = [rule for rules in GROUPS.values() for rule in rules]
RECORDED: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FILES / "rules.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
