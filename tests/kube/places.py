"""Where the chart is, and what goes with it."""

from __future__ import annotations

from pathlib import Path

HELM = Path(__file__).parents[2] / "helm"
CHART = HELM / "kshadow"
EXAMPLES = HELM / "examples"
