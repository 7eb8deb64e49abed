"""The project's alerts and recording rules, as a Prometheus of the demo takes them.

They come with the package. The chart has the same files: both are rendered from the mixin.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from agent.common.timespec import parse_duration
from agent.common.units import SECOND_MS

ALERTS, RECORDED = "alerts.yaml", "rules.yaml"
GROUPS = "kshadow-groups"
"""What the alerts about consumer groups are called together."""

FILES = Path(__file__).parent / "prometheus"


def load(name: str) -> Any:
    """One of the files: `{"groups": [{"name": …, "rules": […]}]}`."""
    return yaml.safe_load((FILES / name).read_text(encoding="utf-8"))


def with_shorter_durations(rules: Any, at_most_s: int) -> Any:
    """The same rules; alerts about groups wait for so many seconds at most until they fire.

    Those about agents stay as they are: an agent that was not scraped yet is no alert.
    """
    groups = [{**group, "rules": [{**rule} for rule in group["rules"]]} for group in rules["groups"]]
    for rule in (rule for group in groups if group["name"] == GROUPS for rule in group["rules"]):
        if parse_duration(rule.get("for", "0s")) > at_most_s * SECOND_MS:
            rule["for"] = f"{at_most_s}s"
    return {"groups": groups}
