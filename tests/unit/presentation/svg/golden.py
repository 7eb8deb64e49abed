"""The drawing of a captured group as it was when somebody looked at it.

`python -m tests.unit.presentation.svg.golden` draws it anew; open it in a browser before it goes in.
"""

from __future__ import annotations

import re

from agent.presentation.svg.lanes import build_lanes
from agent.presentation.svg.swimlanes import swimlanes
from tests import ROOT
from tests.unit.presentation.narrative.golden import histories

GROUP = "billing-java_crash"
FILE = ROOT / "tests" / "data" / "picture" / f"{GROUP}.svg"


def drawn() -> str:
    told = histories()[GROUP]
    shown = build_lanes(told.events, since_ms=told.events[0]["at_ms"], until_ms=told.now_ms)
    svg = swimlanes(shown, width=960)
    # What is said on hover and to those who do not see is the story's: its words may change.
    svg = re.sub(r"<title>.*?</title>| aria-label=\".*?\"", "", svg)
    return svg.replace("><", ">\n<") + "\n"


if __name__ == "__main__":
    FILE.write_text(drawn(), encoding="utf-8")
