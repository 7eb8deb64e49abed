"""`kshadow report` on the captured groups: from files and from an agent, to a file and to a pipe."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import SHARED
from tests.unit.cli.running import SEGMENTS, kshadow, ndjson
from tests.unit.cli.test_decode import line
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log
from tests.unit.presentation.report.reading import checked
from tests.unit.serving.routes.replayed import Replayed, of_path, served

CAPTURE = SHARED / "captures" / "kafka-4.3.1"


def test_a_page_of_files(tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    out.write_text("older")
    result = kshadow("report", "--from", SEGMENTS, "--out", out, "--title", "A <night>", "--top", "2")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{out}: 2 of ")
    page = checked(out.read_text(encoding="utf-8"))
    assert page.headings[0] == ("h1", "A <night>")
    assert str(SEGMENTS) in page.text
    assert os.listdir(tmp_path) == ["r.html"]
    assert out.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_an_agent_tells_the_same_as_the_files() -> None:
    texts = []
    with served(Replayed(of_path(SEGMENTS))) as url:
        for source in (["--from", str(SEGMENTS)], ["--agent", url]):
            span = ["--since", "2026-11-21T07:28:00", "--until", "2026-11-21T07:29:15"]
            result = kshadow("report", "fraud-848", *source, *span, "--out", "-")
            assert result.exit_code == 0, result.stderr
            texts.append(checked(result.stdout).source)
        everything = kshadow("report", "--agent", url, "--out", "-")
    sections = [text[text.index("<figure") : text.index("</figure>")] for text in texts]
    assert sections[0] == sections[1]
    assert "fraud-848" in checked(everything.stdout).text


def test_other_settings_are_tried_unless_told_not_to() -> None:
    for flags, said in (([], True), (["--no-whatif"], False)):
        result = kshadow("report", "fraud-848", "--from", SEGMENTS, "--out", "-", *flags)
        page = checked(result.stdout)
        assert ("What other settings would have saved" in page.text) is said, "here, why that is not told"


@pytest.mark.skipif(not CAPTURE.is_dir(), reason="the captures are not beside the checkout (../shared)")
def test_the_brokers_own_reasons() -> None:
    files = ["--from", CAPTURE / "segments", "--broker-log", CAPTURE / "coordinator.log"]
    result = kshadow("report", "audit-loop", *files, "--out", "-")
    assert result.exit_code == 0, result.stderr
    page = checked(result.stdout)
    assert "The broker's log, at 07:28:00" in page.text
    assert "replayed under other settings" in page.text
    refused = kshadow("report", "--agent", "http://localhost:1", "--broker-log", CAPTURE, "--out", "-")
    assert refused.exit_code == 2


def test_what_is_wrong_is_said_and_has_its_exit_code(tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    missing = kshadow("report", "frod-848", "--from", SEGMENTS, "--out", out)
    assert missing.exit_code == 1
    assert "frod-848" in missing.stderr
    assert not out.exists()
    assert kshadow("report", "--from", SEGMENTS).exit_code == 2
    nowhere = kshadow("report", "--from", SEGMENTS, "--out", tmp_path / "no" / "r.html")
    assert nowhere.exit_code == 3
    assert "expected a file to write to" in nowhere.stderr
    early = kshadow("report", "--from", SEGMENTS, "--out", out, "--since", "1h", "--until", "2h")
    assert early.exit_code == 2
    damaged = ndjson(tmp_path / "d.ndjson", '{"key": "00", "value": null, "partition": 1}', "nonsense")
    result = kshadow("report", "--from", damaged, "--out", out)
    assert result.exit_code == 1
    assert "Problems in the data" in checked(out.read_text(encoding="utf-8")).text


def test_records_without_times_are_no_report(tmp_path: Path) -> None:
    records = Log().add(b.classic_group(1, b.member("m"))).records
    timeless = ndjson(tmp_path / "t.ndjson", *(line(it.key, it.value) for it in records))
    result = kshadow("report", "--from", timeless, "--out", out := tmp_path / "r.html")
    assert (result.exit_code, result.stdout, out.exists()) == (2, "", False)
    assert f"expected records with times, got none in {timeless}" in result.stderr
