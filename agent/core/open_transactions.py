"""A transaction that is open in a partition of the offsets topic, and what it hides: all that was written since.

Owns the values. Knows neither who finds transactions nor what is said of the groups behind them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

GRACE_MS = 5_000
"""Groups behind a transaction that has been open for so long are stale. Those of healthy clients take less: offsets
are sent to a transaction as the last thing before its end."""


class OpenTransaction(NamedTuple):
    """The oldest open transaction of a partition.

    `offset` is that of its first record: the partition's last stable offset, where a read_committed reader stops.
    `since_ms` is when that was written, epoch milliseconds, as far as it is known: never later than when it was first
    seen to be there.
    """

    offset: int
    since_ms: int
    group: str | None = None
    """The group of its first record; None where it is of none, or not known."""
    transactional_ids: tuple[str, ...] = ()
    """The transaction's; several where each of them may be it, none where that is not known."""

    def age_ms(self, now_ms: int) -> int:
        """For how long it has been open."""
        return max(now_ms - self.since_ms, 0)


OpenTransactions = Mapping[int, OpenTransaction]
"""By partition of the offsets topic; partitions without an open transaction are absent."""


def hiding(found: OpenTransactions, now_ms: int) -> dict[int, OpenTransaction]:
    """Those behind which groups are stale."""
    return {number: it for number, it in found.items() if it.age_ms(now_ms) >= GRACE_MS}
