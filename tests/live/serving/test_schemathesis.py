"""Schemathesis finds nothing. A longer look by hand: `python -m tests.harness.schemathesis --examples 1000`."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.serving.openapi import ROUTES
from agent.serving.web.answers import OPENAPI
from tests.harness.schemathesis import look
from tests.unit.serving.openapi.scenes import served


@pytest.mark.thorough  # the OpenAPI description is held to all answers otherwise, too
def test_it_finds_no_violation(tmp_path: Path) -> None:
    with served("hostile") as url:
        looked = look(url, tmp_path, examples=12)
    assert not looked.failed, looked.text
    report = looked.report
    assert (report["failures"], report["errors"], report["complete"]) == ([], [], True)
    # It was no empty look: every operation, fitting requests and others, and real groups by their links.
    assert {label.removeprefix("GET ") for label in report["valid_rates"]} == {it.path for it in ROUTES} - {OPENAPI}
    assert {it["status"] for it in report["phases"].values()} == {"success"}
    assert report["test_cases"]["generated"] > 100
    assert report["valid_rates"]["GET /api/v1/groups/{group}"]["fuzzing"]["accepted"] > 0
