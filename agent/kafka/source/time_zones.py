"""What the local times of brokers' logs mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agent.kafka.source.errors import SourceMisconfigured

if TYPE_CHECKING:
    from agent.core.brokerlog.lines import LocalToEpochMs

_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")


def time_zone(name: str) -> LocalToEpochMs:
    """What local times of a zone mean: `UTC`, `local`, `+02:00` or a name such as Europe/Berlin.

    Raises `SourceMisconfigured`. Of an hour that a clock shows twice, the first is taken.
    """
    if name.upper() in ("UTC", "Z"):
        return lambda local_ms: local_ms
    if name.lower() == "local":
        return _by_minutes(lambda local: local.replace(tzinfo=None).astimezone())
    zone: tzinfo
    if found := _OFFSET.fullmatch(name):
        minutes = int(found[2]) * 60 + int(found[3])
        if minutes >= 24 * 60:
            raise SourceMisconfigured(f"time zone: expected an offset below 24 hours, got {name!r}")
        zone = timezone(timedelta(minutes=-minutes if found[1] == "-" else minutes))
    else:
        try:
            zone = ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise SourceMisconfigured(
                "time zone: expected UTC, local, an offset such as +02:00, or a name such as Europe/Berlin that this "
                f"machine knows, got {name!r}"
            ) from None
    return _by_minutes(lambda local: local.replace(tzinfo=zone))


def _by_minutes(place: Callable[[datetime], datetime]) -> LocalToEpochMs:
    """No zone changes within a minute."""

    @lru_cache(maxsize=256)
    def offset_ms(minute: int) -> int:
        local = datetime.fromtimestamp(minute * 60, UTC)
        return minute * 60_000 - round(place(local).timestamp() * 1000)

    return lambda local_ms: local_ms - offset_ms(local_ms // 60_000)
