"""Where nothing can be read in bulk, and what reading in bulk leaves as it was."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from agent.kafka.source import bulk
from agent.kafka.source.bulk import METADATA_MS, METADATA_TRIES, BulkReader, BulkUnavailable
from tests.unit.core.packing import NEEDS_COMPILED
from tests.waiting import until

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


@NEEDS_COMPILED
@pytest.mark.parametrize(
    ("conf", "reason"),
    [
        ({**NOBODY, "sasl.oauthbearer.method": "aws_msk_iam"}, "tokens of its login come by a callback"),
        ({**NOBODY, "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}, "tokens of its login"),
        ({**NOBODY, "no.such.property": "1"}, "property no.such.property"),
        ({**NOBODY, "ssl.ca.location": "/no/such/file", "security.protocol": "ssl"}, "ssl.ca.location"),
    ],
)
def test_properties_that_do_not_do(conf: dict[str, str], reason: str) -> None:
    with pytest.raises(BulkUnavailable, match=reason):
        BulkReader(conf, "t", {0: 0})


def test_nothing_is_compiled_for_every_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "unlocked_library", lambda: None)
    with pytest.raises(BulkUnavailable, match="nothing was compiled"):
        BulkReader(NOBODY, "t", {0: 0})


@NEEDS_COMPILED
def test_where_nobody_answers_nothing_comes_and_it_ends() -> None:
    with BulkReader(NOBODY, "t", {0: 0}) as reader:
        assert reader.take(0.1) is None
        assert not reader.is_over
        asked = time.monotonic()
    # It was waited until it had asked for as long as it does.
    assert time.monotonic() - asked < METADATA_TRIES * METADATA_MS / 2_000
    assert reader.is_over


@NEEDS_COMPILED
def test_who_waits_for_records_is_woken_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "METADATA_TRIES", 0)
    monkeypatch.setattr(bulk, "POLL_MS", 20_000)
    with BulkReader(NOBODY, "t", {0: 0}) as reader:
        assert reader.take(0.5) is None
        asked = time.monotonic()
    assert time.monotonic() - asked < 10


@NEEDS_COMPILED
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc/self/task: Linux has it")
def test_where_no_thread_can_be_started_its_client_is_closed() -> None:
    before, size = set(os.listdir("/proc/self/task")), threading.stack_size(1 << 46)
    try:
        with pytest.raises(BulkUnavailable, match="can't start new thread"), BulkReader(NOBODY, "t", {0: 0}):
            pass
    finally:
        threading.stack_size(size)
    until(lambda: set(os.listdir("/proc/self/task")) <= before)
