"""Pictures of what people see, of the scene's agent: each shows something."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import ROOT
from tests.harness.browser import chromium_path
from tests.harness.docs_shots import GROUP, colours, few
from tests.live.stack.scene import Stack, scenarios

pytestmark = [
    pytest.mark.usefixtures("kafka"),
    pytest.mark.thorough,
]  # helm.dashboards has tests without Prometheus


@pytest.mark.thorough
@pytest.mark.skipif(chromium_path() is None, reason="no Chromium on PATH, and KSHADOW_CHROMIUM names none")
def test_the_readmes_pictures_can_be_made_and_show_something(stack: Stack, tmp_path: Path) -> None:
    assert GROUP in {it.group for it in scenarios()}
    made = list(few(stack.agent, tmp_path))
    assert {path.name for path in made} == {it.name for it in (ROOT / "docs" / "images").iterdir()}
    assert [f"{path.name}: {found}" for path in made if (found := colours(path)) < 12] == []
