"""One scene for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent.tools.demo.monitoring import Programs
from tests.harness.tools import need
from tests.live.stack.scene import Stack, play


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Played once; all of it is up until the last test of this folder is through."""
    programs = Programs(need("prometheus"), need("alertmanager"))
    with play(tmp_path_factory.mktemp("stack"), programs) as stack:
        yield stack
