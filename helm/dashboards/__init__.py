"""Grafana's dashboards as code: `python -m helm.dashboards` writes them to where the chart has them.

`fleet`, `group` (with `group_work`) and `agent` (with `agent_edges`) are the three dashboards; `frame` is what they
share around their panels (variables, links, annotations), `panels` the kinds of panels, `promql` the queries' parts,
`looks` the colours, `words` what stands where there is no data. Nothing here is part of what users install.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from helm.dashboards.agent import agent
from helm.dashboards.fleet import fleet
from helm.dashboards.group import group

FILES: Final = Path(__file__).parents[1] / "kshadow/files/dashboards"
"""Where the chart has them."""


def rendered() -> Mapping[str, str]:
    """Each dashboard as the text of its file, by the file's name. The same text each time."""
    built = (fleet(), group(), agent())
    return {f"{it.uid}.json": json.dumps(it, cls=JSONEncoder, indent=2, sort_keys=True) + "\n" for it in built}
