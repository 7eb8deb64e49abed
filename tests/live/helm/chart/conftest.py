"""Helm 4 and 3, and the example chart of a consumer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.tools import need
from tests.live.helm.chart.rendering import sidecar_parent


@pytest.fixture(params=["helm", "helm3"])
def any_helm(request: pytest.FixtureRequest) -> Path:
    """Helm 4, then Helm 3."""
    return need(request.param)


@pytest.fixture(scope="session")
def helm4() -> Path:
    return need("helm")


@pytest.fixture(scope="session")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A consumer's chart with the library in it."""
    return sidecar_parent(tmp_path_factory.mktemp("parent"))
