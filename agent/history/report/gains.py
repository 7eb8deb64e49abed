"""What `kshadow whatif GROUP -o json` said, from files: the setting that each group would gain the most from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from agent.history.errors import HistoryError, error_of
from agent.simulation.whatif.comparison import LEAST_SAVED_SHARE


class Reproduced(Struct, frozen=True):
    """How true the replay is. `has_times_of_log`: whether partitions are stopped for as long as in the log; null
    where the log does not tell, lacking in older documents."""

    exact: bool
    has_times_of_log: bool | None = True


class Setting(Struct, frozen=True):
    """What a replay came to. Standstill in partition-milliseconds."""

    setting: str
    rebalances: int
    stopped_partition_ms: int


class WhatIfDocument(Struct, frozen=True):
    """One group. The first of `settings` are today's."""

    group: str
    since_ms: int
    until_ms: int
    reproduced: Reproduced
    settings: list[Setting]
    assumptions: list[str]


_decode = msgspec.json.Decoder(WhatIfDocument | list[WhatIfDocument]).decode
_ENDINGS = (".json", ".ndjson")


def documents(path: str) -> list[WhatIfDocument]:
    """Of a file, or of all `.json` and `.ndjson` files below a directory. Raises `HistoryError`."""
    at = Path(path)
    try:
        files = sorted(it for it in at.rglob("*") if it.suffix in _ENDINGS and it.is_file()) if at.is_dir() else [at]
        out = [document for file in files for document in _read(file)]
    except OSError as error:
        raise error_of(error, path) from None
    if not out:
        raise HistoryError(
            f"{path}: expected what kshadow whatif GROUP -o json prints, in files that end in .json or .ndjson"
        )
    return out


def _read(file: Path) -> Iterator[WhatIfDocument]:
    text = file.read_bytes()
    try:
        whole = _decode(text)
    except msgspec.DecodeError:
        pieces = [(f" line {number}", line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        # One that is no NDJSON either: its own mistake is the one to tell.
        pieces = pieces if pieces and pieces[0][1].rstrip().endswith(b"}") else [("", text)]
        for where, line in pieces:
            try:
                yield from _all(_decode(line))
            except msgspec.MsgspecError as error:
                raise HistoryError(
                    f"{file}{where}: expected what kshadow whatif GROUP -o json prints: {error}"
                ) from None
    else:
        yield from _all(whole)


def _all(found: WhatIfDocument | list[WhatIfDocument]) -> list[WhatIfDocument]:
    return found if isinstance(found, list) else [found]


def gains(found: Iterable[WhatIfDocument]) -> list[dict[str, Any]]:
    """Rows of `GAINS`. Of several documents of a group the one that ends last counts."""
    rows = [row for document in _latest(found) if (row := _gain(document)) is not None]
    rows.sort(key=lambda row: (-row["saved_partition_ms"], row["group"]))
    return [{"rank": rank, **row} for rank, row in enumerate(rows, 1)]


def doubtful(found: Iterable[WhatIfDocument]) -> int:
    """Of how many groups a replay's times are not those of the log, or nobody knows."""
    return sum(not document.reproduced.has_times_of_log for document in _latest(found))


def _latest(found: Iterable[WhatIfDocument]) -> Iterable[WhatIfDocument]:
    latest: dict[str, WhatIfDocument] = {}
    for document in found:
        if document.group not in latest or document.until_ms >= latest[document.group].until_ms:
            latest[document.group] = document
    return latest.values()


def _gain(it: WhatIfDocument) -> dict[str, Any] | None:
    # Times that are not the group's promise it nothing.
    if len(it.settings) < 2 or not it.reproduced.has_times_of_log:
        return None
    today = it.settings[0]
    best = min(it.settings[1:], key=lambda setting: (setting.stopped_partition_ms, setting.rebalances))
    saved = today.stopped_partition_ms - best.stopped_partition_ms
    # The rule of `kshadow whatif` itself for what is worth the name.
    if saved <= LEAST_SAVED_SHARE * today.stopped_partition_ms:
        return None
    return {
        "group": it.group,
        "since_ms": it.since_ms,
        "until_ms": it.until_ms,
        "exact": it.reproduced.exact,
        "setting": best.setting,
        "rebalances_now": today.rebalances,
        "rebalances_then": best.rebalances,
        "stopped_now_ms": today.stopped_partition_ms,
        "stopped_then_ms": best.stopped_partition_ms,
        "saved_partition_ms": saved,
        "assumptions": it.assumptions,
    }
