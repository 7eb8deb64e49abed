"""`docs/reference/alerts.md`: every alert of the mixin, as it is rendered."""

from __future__ import annotations

import re
from typing import Any

from tests.generate.docs.markdown import anchor, code, fenced, prose, table
from tests.live.helm.mixin.alerts import GROUPS, RECORDED

HEAD = """\
# Alerts

The alerts of the [mixin](../../helm/mixin/README.md) as rendered in the chart (`helm/kshadow/files/alerts.yaml`,
for any Prometheus), and the recording rules that they use. What to do when one fires: [runbooks](../runbooks.md).
Thresholds and times are settings of the mixin.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD, _overview()]
    for rules in GROUPS.values():
        for name in dict.fromkeys(rule["alert"] for rule in rules):
            parts.append(_section(name, [rule for rule in rules if rule["alert"] == name]))
    parts += ["## Recording rules\n", "From `helm/kshadow/files/rules.yaml`.\n"]
    parts.append(
        table(
            ("records", "expression"), ((code(it["record"]), code(" ".join(it["expr"].split()))) for it in RECORDED)
        )
    )
    return "\n".join(parts)


def _overview() -> str:
    rows: dict[str, list[str]] = {}
    for rule in (rule for rules in GROUPS.values() for rule in rules):
        rows.setdefault(rule["alert"], []).append(rule["labels"]["severity"])
    return table(("alert", "severity"), ((f"[{name}](#{anchor(name)})", ", ".join(it)) for name, it in rows.items()))


def _section(name: str, rules: list[dict[str, Any]]) -> str:
    parts = [f"## {name}\n", f"{_words(rules[0]['annotations']['summary'])}\n"]
    for rule in rules:
        held = f", after {rule['for']}" if "for" in rule else ""
        parts.append(f"**{rule['labels']['severity']}**{held}. {_words(rule['annotations']['description'])}\n")
        parts.append(fenced(rule["expr"], "promql"))
    target = rules[0]["annotations"]["runbook_url"].removeprefix("docs/")
    parts.append(f"What to do: [runbook](../{target}).\n")
    return "\n".join(parts)


def _words(template: str) -> str:
    """What people are to read of an annotation's template: labels by name, and what stands under a condition."""
    text = re.sub(r"\{\{ with \$labels\.\w+ \}\}.*?\{\{ end \}\}", "", template)
    text = re.sub(r"\{\{ with printf .*?\| query \}\}([^{]*):.*?\.\{\{ end \}\}", r"\1: N.", text)
    text = re.sub(r"\{\{-? ?(?:if|else|end)[^}]*\}\}", "", text)
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"`\1`", text)
    return prose(re.sub(r"\{\{[^}]*\$value[^}]*\}\}", "N", text))
