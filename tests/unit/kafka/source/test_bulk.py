"""Where nothing can be read in bulk, and what reading in bulk leaves as it was."""

from __future__ import annotations

import pytest

from agent.kafka.source import bulk
from agent.kafka.source.bulk import BulkReader, BulkUnavailable
from tests.unit.core.packing import NEEDS_COMPILED

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


@NEEDS_COMPILED
@pytest.mark.parametrize(
    ("conf", "reason"),
    [
        ({**NOBODY, "sasl.oauthbearer.method": "aws_msk_iam"}, "tokens of its login come by a callback"),
        ({**NOBODY, "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}, "tokens of its login"),
        ({**NOBODY, "no.such.property": "1"}, "property no.such.property"),
        ({**NOBODY, "ssl.ca.location": "/no/such/file", "security.protocol": "ssl"}, "ssl.ca.location"),
    ],
)
def test_properties_that_do_not_do(conf: dict[str, str], reason: str) -> None:
    with pytest.raises(BulkUnavailable, match=reason):
        BulkReader(conf, "t", {0: 0})


def test_nothing_is_compiled_for_every_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "unlocked_library", lambda: None)
    with pytest.raises(BulkUnavailable, match="nothing was compiled"):
        BulkReader(NOBODY, "t", {0: 0})


@NEEDS_COMPILED
def test_where_nobody_answers_nothing_comes_and_it_ends() -> None:
    with BulkReader(NOBODY, "t", {0: 0}) as reader:
        assert reader.take(0.1) is None
        assert not reader.is_over
    assert reader.is_over
