"""Where the chart is, and what goes with it."""

from __future__ import annotations

from tests import ROOT

HELM = ROOT / "helm"
CHART = HELM / "kshadow"
EXAMPLES = HELM / "examples"
