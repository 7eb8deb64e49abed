"""Pictures of what people see, of the scene's agent: each shows something, and no page did anything in secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.browser import chromium_path
from tests.harness.docs_shots import GROUP, NAMES, colours, every
from tests.live.stack.scene import Stack, scenarios

pytestmark = pytest.mark.usefixtures("kafka")


@pytest.mark.skipif(chromium_path() is None, reason="no Chromium on PATH, and KSHADOW_CHROMIUM names none")
def test_every_picture_can_be_made_and_shows_something(stack: Stack, tmp_path: Path) -> None:
    assert GROUP in {it.group for it in scenarios()}
    made = list(every(stack.agent, tmp_path))
    assert {path.stem for path in made} == set(NAMES)
    assert [f"{path.name}: {found}" for path in made if (found := colours(path)) < 12] == []
