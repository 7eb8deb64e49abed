"""A fleet whose names mean harm, over three days, and what a model says of it."""

from __future__ import annotations

import json
from pathlib import Path

from agent.history.report.request import Report
from tests.unit.history.report import made

NAMES = (
    "<script>alert(1)</script>",
    '"><img src=http://leak.test/x onerror=alert(1)>',
    "\x1b[31mred\x1b[0m\x07\r\n\t",
    "$\\frac{}$ $x^$ \\frac",
    "safe\u202egpj.exe\u2066 \u200bhidden",
    "long-" + "x" * 10_000,
    "&lt;b&gt; &amp; </table></style><style>*{display:none}",
    "שלום",
    "日本語.消費者",
    "💥-\U000e0001",
    "",
    "-",
    "../../etc/passwd",
    "javascript:alert(1)",
    "{{7*7}}{7}%s%(x)s",
)
CLUSTERS = ("<b>east</b>", "\x1b]0;west\x07")
CAUSE = "</td><script>cause()</script>\u202e$\\sum$"
ANALYZER = "<iframe src=http://leak.test/>"
SETTING = "<svg onload=alert(2)>\x1b[2J"


def rows() -> made.Rows:
    out = made.Rows()
    for at, name in enumerate(NAMES):
        cost = 10_000 * (len(NAMES) - at)
        first = made.BEGIN_MS + 10 * made.HOUR_MS
        done = [(first, "member_left", cost), (first + 5_000, CAUSE, cost), (first + 9_000, CAUSE, cost)]
        happened = [
            made.Episode("deploy", done, 2, ["member_left", CAUSE], 1),
            made.Episode("other", [(first + 30 * made.HOUR_MS, "unknown", cost)]),
        ]
        out.add(made.rows_of(CLUSTERS[at % 2], name, happened, 0, 96, has_lag=at % 2 == 0))
    here = {
        "cluster": CLUSTERS[0],
        "group_type": None,
        "window": "1h",
        "kind": "finding",
        "cause": ANALYZER,
        "count": 1,
    }
    here |= {"cause": ANALYZER, "count": 1}
    hour = {"start_ms": made.BEGIN_MS, "end_ms": made.BEGIN_MS + made.HOUR_MS, "stopped_partition_ms": None}
    out.causes += [here | hour | {"group": group} for group in (None, NAMES[0], NAMES[5])]
    return out


def what_if(where: Path) -> Path:
    """One document a name."""
    where.mkdir()
    for at, name in enumerate(NAMES):
        form = {
            "group": name,
            "since_ms": made.BEGIN_MS,
            "until_ms": made.BEGIN_MS + made.DAY_MS,
            "reproduced": {"exact": False},
            "settings": [
                {"setting": "today's settings", "rebalances": 9, "stopped_partition_ms": 90_000},
                {"setting": SETTING, "rebalances": 1, "stopped_partition_ms": 1_000 * at},
            ],
            "assumptions": [SETTING, f"only of {name}"],
        }
        (where / f"{at}.json").write_text(json.dumps(form), encoding="utf-8")
    return where


def page(where: Path) -> Path:
    """Its report."""
    middle = made.BEGIN_MS + 2 * made.DAY_MS
    made.run(
        Report(
            rollups=str(rows().write(where / "rollups")),
            out=str(where / "page.html"),
            what_if=str(what_if(where / "what-if")),
            before=(made.BEGIN_MS, middle),
            after=(middle, middle + 2 * made.DAY_MS),
        )
    )
    return where / "page.html"
