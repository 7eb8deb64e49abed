"""The two answers of a broker that come before a login, as bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.wire.errors import WireError
from agent.tools.doctor.handshake import (
    ApiVersions,
    SaslHandshake,
    api_versions_request,
    parse_api_versions,
    parse_sasl_handshake,
    sasl_handshake_request,
)

FEATURES = b"\x02\x0egroup.version" + struct.pack(">hh", 1, 1) + b"\0"
TAGS = bytes([2, 1, 8]) + bytes(8) + bytes([2, len(FEATURES)]) + FEATURES
APIS = b"\x03" + struct.pack(">hhh", 18, 0, 4) + b"\0" + struct.pack(">hhh", 76, 1, 2) + b"\x01\x05\x01x"
VERSIONS = struct.pack(">ih", 0, 0) + APIS + struct.pack(">i", 0) + TAGS


def login(error: int, *mechanisms: bytes) -> bytes:
    names = b"".join(struct.pack(">h", len(it)) + it for it in mechanisms)
    return struct.pack(">ihi", 0, error, len(mechanisms)) + names


def test_requests_say_how_long_they_are() -> None:
    for request in (api_versions_request(), sasl_handshake_request("SCRAM-SHA-512")):
        assert struct.unpack(">i", request[:4]) == (len(request) - 4,)
    assert api_versions_request()[4:8] == struct.pack(">hh", 18, 3)
    assert sasl_handshake_request("PLAIN").endswith(b"\x00\x05PLAIN")


def test_versions_and_features() -> None:
    assert parse_api_versions(VERSIONS) == ApiVersions({18: 4, 76: 2}, {"group.version": 1})
    assert parse_api_versions(struct.pack(">ihi", 0, 35, 0)) == ApiVersions({}, {})


def test_logins() -> None:
    assert parse_sasl_handshake(login(0, b"PLAIN")) == SaslHandshake(True, True, ("PLAIN",))
    assert parse_sasl_handshake(login(33, b"SCRAM-SHA-512", b"PLAIN")) == SaslHandshake(
        True, False, ("PLAIN", "SCRAM-SHA-512")
    )
    assert parse_sasl_handshake(login(34)) == SaslHandshake(False, False, ())


@pytest.mark.parametrize("answer", [struct.pack(">ih", 7, 0), struct.pack(">ih", 0, 41), b"HTTP/1.1 400 Bad Request"])
def test_what_is_no_answer(answer: bytes) -> None:
    for read in (parse_api_versions, parse_sasl_handshake):
        with pytest.raises(WireError):
            read(answer)


@given(st.one_of(st.binary(), st.integers(0, len(VERSIONS)).map(lambda size: VERSIONS[:size])))
def test_arbitrary_bytes_are_read_or_refused(answer: bytes) -> None:
    for read in (parse_api_versions, parse_sasl_handshake):
        try:
            read(answer)
        except WireError:
            continue
