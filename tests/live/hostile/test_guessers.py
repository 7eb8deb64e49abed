"""Guessers in programs of their own keep nobody out who has the password."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.harness.siege.attackers import USER
from tests.harness.siege.measuring import besieged, rightful
from tests.unit.serving.web.made import guarded, hashed

PASSWORD = "right horse"


@pytest.mark.parametrize("addresses", [1, 40])
def test_the_right_password_gets_in(tmp_path: Path, addresses: int) -> None:
    config = f"basic_auth_users:\n  {USER}: {hashed(PASSWORD, cost=10)}\n"
    with guarded(tmp_path, config) as url:
        port = urlsplit(url).port
        assert port is not None
        with besieged(port, [("guessing", 40, addresses)]):
            found = rightful(port, USER, PASSWORD, 4)
    assert {what: (it.good, dict(it.others)) for what, it in found.items()} == {
        "right password": (4, {}),
        "/healthz": (4, {}),
    }
