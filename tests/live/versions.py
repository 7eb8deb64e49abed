"""Which versions of Kafka the live tests run against."""

from __future__ import annotations

import os

NEWEST, CLASSIC = "4.3.1", "3.9.2"

COORDINATORS = (NEWEST, CLASSIC)
"""The new group coordinator and the classic one: for what a coordinator's version can change."""

SUPPORTED = COORDINATORS if os.environ.get("KAFKA_VERSIONS") == "all" else (NEWEST,)
"""For all else, such as logins, lag and the doctor: the newest, and each with `KAFKA_VERSIONS=all make test`."""
