"""How severe a finding is."""

from __future__ import annotations

from agent.core.diagnosis.severity import Severity


def test_severities_have_an_order() -> None:
    assert [(str(it), it.rank) for it in Severity] == [("info", 0), ("warning", 1), ("critical", 2)]


def test_what_another_version_says_counts_as_the_least() -> None:
    assert [Severity.of(text) for text in ("critical", "fatal")] == [Severity.CRITICAL, Severity.INFO]
