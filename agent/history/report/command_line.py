"""The command that makes a page again."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime

from agent.history.report.request import Report


def command(job: Report, engine: str) -> str:
    """As one would type it; times in UTC. `engine`: `spark` or `history`."""
    words = ["kshadow", engine, "report", "--rollups", job.rollups, "--out", job.out]
    for flag, at_ms in (("--since", job.since_ms), ("--until", job.until_ms)):
        if at_ms is not None:
            words += [flag, _time(at_ms)]
    for flag, both in (("--before", job.before), ("--after", job.after)):
        if both is not None:
            words += [flag, "..".join(map(_time, both))]
    default = Report(rollups="", out="")
    for flag, value, usual in (
        ("--summary", job.summary, default.summary),
        ("--timezone", job.time_zone, default.time_zone),
        ("--whatif", job.what_if, default.what_if),
        ("--top", job.most_groups, default.most_groups),
    ):
        if value != usual:
            words += [flag, str(value)]
    return shlex.join(words)


def _time(at_ms: int) -> str:
    # To the millisecond: a page says how it was made to whoever wants the very same.
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
