"""What is sent for which `Accept` and `Accept-Encoding`."""

from __future__ import annotations

import pytest

from agent.serving.web.content_negotiation import accepts_gzip, negotiate_exposition

OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
OLD_OPEN = "application/openmetrics-text; version=0.0.1; charset=utf-8"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
TEXT_1 = "text/plain; version=1.0.0; charset=utf-8"

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
    "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)
PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,"


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", TEXT),  # 1: nothing said
        ("*/*", TEXT),  # 2: curl
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", TEXT),  # 3: a browser
        (PROMETHEUS_2, OPEN),  # 4
        (PROMETHEUS_3, f"{OPEN}; escaping=allow-utf-8"),  # 5
        (PROTOBUF + PROMETHEUS_2, OPEN),  # 6: native histograms asked for; there are none here
        ("text/plain;version=0.0.4", TEXT),  # 7
        ("text/plain;version=1.0.0;escaping=underscores", f"{TEXT_1}; escaping=underscores"),  # 8
        ("text/plain;version=1.0.0;escaping=evil", TEXT_1),  # 9: an unknown one is not said back
        ("application/openmetrics-text", OPEN),  # 10: no version
        ("application/openmetrics-text;version=0.0.1", OLD_OPEN),  # 11
        ("application/openmetrics-text;version=2.0.0", TEXT),  # 12: not known yet
        ("application/openmetrics-text;version=1.0.0;q=0,text/plain;q=0.1", TEXT),  # 13: 0 is no
        ("application/openmetrics-text;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.7", TEXT),  # 14: weight
        ("text/plain;q=0.7, application/openmetrics-text;q=0.7", TEXT),  # 15: equal, the first
        ('Application/OpenMetrics-Text; Version="1.0.0" ; Q=0.9', OPEN),  # 16: writing
        ("application/json", TEXT),  # 17: what there is not
        ("application/openmetrics-text;q=x", TEXT),  # 18: no number
        ("application/openmetrics-text;q=2", TEXT),  # 19: no weight
        ("application/openmetrics-text;q=nan", TEXT),  # 20
        ("," * 100_000 + ";;==,;", TEXT),  # 21: nonsense
        ("text/*;q=0.5", TEXT),  # 22
    ],
)
def test_exposition(accept: str, content_type: str) -> None:
    found = negotiate_exposition(accept)
    assert found.content_type == content_type
    assert found.openmetrics == content_type.startswith("application/openmetrics")


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("", False),
        ("gzip", True),
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("gzip;q=0", False),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("identity", False),
        ("X-GZIP", True),
    ],
)
def test_gzip(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted
