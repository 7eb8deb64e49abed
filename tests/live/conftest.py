"""All that is here needs more than Python."""

import pytest


@pytest.fixture(autouse=True)
def _live(process: None) -> None:
    """Whatever it needs besides, it starts programs."""
