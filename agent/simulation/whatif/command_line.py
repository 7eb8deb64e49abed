"""The command that replays a group, for whoever wants more than is shown."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from agent.presentation.narrative.words import MAX_NAME, iso


def whatif_command(group: str, source: Mapping[str, Any], since_ms: int | None, until_ms: int | None) -> str:
    """`kshadow whatif` of the same group and range, as a shell takes it. `source`: the options of a query."""
    if source.get("from_path") is not None:
        where = ["--from", str(source["from_path"])]
    elif source.get("agent") is not None:
        where = ["--agent", str(source["agent"])]
    else:
        where = ["--bootstrap-server", str(source.get("bootstrap_server") or "HOST:9092")]
    bounds = [
        part
        for option, at_ms in (("--since", since_ms), ("--until", until_ms))
        if at_ms is not None
        for part in (option, iso(at_ms))
    ]
    # One whose name is that long, or could be taken for an option, is asked for by hand.
    shown = group if len(group) <= MAX_NAME and group.isprintable() and not group.startswith("-") else "GROUP"
    return shlex.join(["kshadow", "whatif", shown, *where, *bounds])
