"""Beside one quiet group the agent reads one partition, and stays small.

CPU is only printed, since machines that run tests are busy; `python -m tests.harness.sidecar_size` measures it
over a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.sidecar_size import AS_SIDECAR, MOST_MB, PARTITIONS, cluster, measure, table

pytestmark = pytest.mark.usefixtures("kafka")

RECORDS = 100_000


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with cluster(RECORDS) as servers:
        yield servers


def test_it_reads_one_partition_and_takes_little_memory(servers: str, tmp_path: Path) -> None:
    beside = measure(servers, AS_SIDECAR, 3, tmp_path, settle_s=1)
    print(table({"as a sidecar": beside}))
    assert beside.partitions == 1
    assert 0 < beside.records < 3 * RECORDS / PARTITIONS, "a fiftieth of what is there, more or less"
    assert beside.rss_mb < MOST_MB


def test_with_the_admin_api_it_fits_into_the_same_limit(servers: str, tmp_path: Path) -> None:
    beside = measure(servers, (*AS_SIDECAR, "--admin"), 3, tmp_path, settle_s=2)
    print(table({"and --admin": beside}))
    assert beside.partitions == 1
    assert beside.pss_mb < MOST_MB, "two processes, of whose libraries there is one copy"
