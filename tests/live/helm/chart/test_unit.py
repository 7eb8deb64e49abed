"""helm-unittest's suites, and that they leave no template out."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import yaml

from tests.harness.tools import need
from tests.live.helm.chart.rendering import CHART


def test_the_suites_pass(tmp_path: Path) -> None:
    chart = tmp_path / "kshadow"
    shutil.copytree(CHART, chart)
    dashboards = chart / "files" / "dashboards"
    dashboards.mkdir(exist_ok=True)
    # Until the real ones are there.
    if not [*dashboards.iterdir()]:
        (dashboards / "kshadow-fleet.json").write_text('{"uid": "kshadow-fleet"}')
    done = subprocess.run(
        [need("helm-unittest"), "--strict", str(chart)],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_template_has_a_suite() -> None:
    suites = [yaml.safe_load(path.read_text()) for path in (CHART / "tests").glob("*_test.yaml")]
    tried = {template for suite in suites for template in suite["templates"]}
    there = {path.name for path in (CHART / "templates").iterdir() if path.suffix != ".tpl"}
    assert tried == there
