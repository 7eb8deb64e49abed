"""The newest Kafka's own definitions and classes say what is recorded, and nothing that ours lack."""

from __future__ import annotations

import json

import pytest

from agent.tools.embedded import DEFAULT_VERSION, fetch_jars
from tests.generate.record_schemas.__main__ import main
from tests.generate.record_schemas.definitions import schemas_of
from tests.generate.record_schemas.recorded import SCHEMAS, VECTORS
from tests.generate.record_schemas.vectors import written_by_kafka

pytestmark = pytest.mark.usefixtures("kafka")


def test_the_newest_kafka_has_nothing_that_ours_lack(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("; 0 differ")


def test_what_is_recorded_is_what_the_newest_kafka_says() -> None:
    jars = fetch_jars(DEFAULT_VERSION)
    assert schemas_of(jars) == json.loads(SCHEMAS.read_text(encoding="utf-8"))
    recorded = [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]
    assert written_by_kafka(jars) == recorded
