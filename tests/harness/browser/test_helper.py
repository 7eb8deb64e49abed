"""The helper itself: that it would notice what the other tests rely on it to notice."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.harness.browser import axe, chromium, opened, overflow

PAGE = """<!DOCTYPE html><html lang="en"><title>t</title><main><h1>t</h1>{}</main>"""


def address(tmp_path: Path, body: str) -> str:
    path = tmp_path / "page.html"
    path.write_text(PAGE.format(body), encoding="utf-8")
    return path.as_uri()


def test_nothing_wrong(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, address(tmp_path, "<p>words</p>")) as (page, seen):
        assert (axe(page), overflow(page), seen.wrong()) == ([], 0, [])


def test_what_is_wrong_is_noticed(browser: Browser, tmp_path: Path) -> None:
    body = """<img src="http://127.0.0.1:9/x.png"><div style="width:900px">w</div><script>nonsense()</script>"""
    with opened(browser, address(tmp_path, body), width=360) as (page, seen):
        assert [it.partition(":")[0] for it in axe(page)] == ["image-alt"]
        assert overflow(page) > 500
        said = " ".join(seen.wrong())
        assert "asked http://127.0.0.1:9/x.png" in said
        assert "nonsense is not defined" in said


def test_no_browser_is_a_reason_to_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("KSHADOW_CHROMIUM", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no Chromium"), chromium():
        pass
