"""The mixin, evaluated by jsonnet, and as the rule files that the chart and the demo take."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests import ROOT

MIXIN = ROOT / "helm" / "mixin"
FILES = ROOT / "helm" / "kshadow" / "files"
PLACES = (FILES, ROOT / "agent/tools/demo/prometheus")
"""Who takes the rendered files: the chart, and the package for its demo (a chart is no part of a wheel)."""
EXPORTED = {"alerts.yaml": "prometheusAlerts", "rules.yaml": "prometheusRules"}
"""By file what the mixin calls it."""

HEAD = "# Rendered from helm/mixin: change it there, then python -m tests.generate.mixin\n"
ORDER = ("name", "interval", "alert", "record", "expr", "for", "labels", "annotations", "summary", "description")


def evaluate(jsonnet: Path, what: str, config: str = "{}") -> Any:
    """A field of the mixin, with some of its settings replaced by those of `config`, in jsonnet."""
    program = f"((import '{MIXIN / 'mixin.libsonnet'}') + {{ _config+:: {config} }}).{what}"
    done = subprocess.run([jsonnet, "-e", program], capture_output=True, check=False, text=True)
    if done.returncode:
        raise ValueError(done.stderr)
    return json.loads(done.stdout)


def render(jsonnet: Path) -> dict[str, str]:
    """The content of each file."""
    return {name: HEAD + text(evaluate(jsonnet, what)) for name, what in EXPORTED.items()}


def text(rules: Any) -> str:
    """As YAML that people can read: keys in the usual order, expressions line by line."""
    return yaml.dump(_ordered(rules), Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)


def _ordered(it: Any) -> Any:
    if isinstance(it, list):
        return [_ordered(item) for item in it]
    if isinstance(it, dict):
        keys = sorted(it, key=lambda key: (ORDER.index(key) if key in ORDER else len(ORDER), key))
        return {key: _ordered(it[key]) for key in keys}
    return it


class _Dumper(yaml.SafeDumper):
    pass


def _string(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _string)
