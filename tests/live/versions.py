"""Which versions of Kafka the live tests run against.

`KAFKA_VERSIONS` names others: `all`, for everything on both, or `4.3.1`, or `4.3.1,3.9.2`: the first is the one that
most tests run on, embedded brokers of no stated version included.
"""

from __future__ import annotations

import os

from agent.tools.embedded import jars
from tests import others_thorough

NEWEST, CLASSIC = jars.DEFAULT_VERSION, "3.9.2"

_ASKED = os.environ.get("KAFKA_VERSIONS", "")
if _ASKED not in ("", "all"):
    NEWEST = jars.DEFAULT_VERSION = _ASKED.split(",")[0]

COORDINATORS = (NEWEST, CLASSIC) if _ASKED in ("", "all") else tuple(_ASKED.split(","))
"""The new group coordinator and the classic one: for what a coordinator's version can change."""

NEWEST_ELSE_THOROUGH = COORDINATORS if _ASKED else others_thorough(COORDINATORS, NEWEST)
"""The same, all but the newest in `make thorough` alone: where other tests are on each."""

SUPPORTED = COORDINATORS if _ASKED else (NEWEST,)
"""For all else, such as logins, lag and the doctor: the newest, and each with `KAFKA_VERSIONS=all make test`."""
