"""The two requests that a broker answers before it knows who asks: ApiVersions and SaslHandshake, as bytes.

Clients send them first, and hide what comes of them behind a failed connection. Asked by themselves they tell what
listens there, what it can do, and which ways to log in it takes. Formats: Kafka's ApiVersions version 3 (KIP-511,
features KIP-584) and SaslHandshake version 1 (KIP-43, KIP-152). No I/O.
"""

from __future__ import annotations

import struct

from msgspec import Struct

from agent import __version__
from agent.core.wire.errors import Invalid
from agent.core.wire.primitives import read_int16, read_int32
from agent.core.wire.schema import INT16, INT32, STRING, Message, array, wire

MOST_BYTES = 1 << 20
"""An answer that says to be longer is none of Kafka's."""

_API_VERSIONS, _SASL_HANDSHAKE = 18, 17
_UNSUPPORTED_VERSION, _UNSUPPORTED_MECHANISM, _ILLEGAL_SASL_STATE = 35, 33, 34
_CLIENT = b"kshadow"

METADATA = 3
# The request that it came with.
KIP_848 = 68


class ApiVersions(Struct, frozen=True):
    """What a broker can do: its newest version of each request by key, and the cluster's features with their level.

    A broker older than 2.4 (KIP-511) tells neither.
    """

    apis: dict[int, int]
    features: dict[str, int]


class SaslHandshake(Struct, frozen=True):
    """Whether a listener wants a login (None: it did not say), whether by this mechanism, and the ones it takes."""

    wanted: bool | None
    taken: bool
    mechanisms: tuple[str, ...]


def api_versions_request() -> bytes:
    """An ApiVersions request."""
    version = __version__.encode()
    body = bytes([len(_CLIENT) + 1]) + _CLIENT + bytes([len(version) + 1]) + version + b"\0"
    return _framed(_API_VERSIONS, 3, b"\0" + body)


def sasl_handshake_request(mechanism: str) -> bytes:
    """A SaslHandshake request."""
    name = mechanism.encode()
    return _framed(_SASL_HANDSHAKE, 1, struct.pack(">h", len(name)) + name)


def _framed(api: int, version: int, rest: bytes) -> bytes:
    header = struct.pack(">hhih", api, version, 0, len(_CLIENT)) + _CLIENT
    return struct.pack(">i", len(header + rest)) + header + rest


class _ApiKey(Message, frozen=True):
    """A request that the broker answers, and in which versions."""

    versions = (3, 3)
    flexible = 3

    api_key: int = wire(INT16)
    min_version: int = wire(INT16)
    max_version: int = wire(INT16)


class _FinalizedFeature(Message, frozen=True):
    """A feature of the cluster, and the level that it is at."""

    versions = (3, 3)
    flexible = 3

    name: str = wire(STRING)
    max_version_level: int = wire(INT16)
    min_version_level: int = wire(INT16)


class _ApiVersionsAnswer(Message, frozen=True):
    """What stands behind the error code."""

    versions = (3, 3)
    flexible = 3

    api_keys: tuple[_ApiKey, ...] = wire(array(_ApiKey))
    throttle_time_ms: int = wire(INT32)
    finalized_features: tuple[_FinalizedFeature, ...] = wire(array(_FinalizedFeature), tag=2)


class _SaslHandshakeAnswer(Message, frozen=True):
    """What stands behind the error code."""

    mechanisms: tuple[str, ...] = wire(array(STRING))


def parse_api_versions(answer: bytes) -> ApiVersions:
    """An ApiVersions answer, without its length. Raises `WireError`."""
    error, at = _skip_header(answer)
    if error == _UNSUPPORTED_VERSION:
        return ApiVersions({}, {})
    _check_error_code(error)
    told, _ = _ApiVersionsAnswer.read(answer, at, 3)
    return ApiVersions(
        {it.api_key: it.max_version for it in told.api_keys},
        {it.name: it.max_version_level for it in told.finalized_features},
    )


def parse_sasl_handshake(answer: bytes) -> SaslHandshake:
    """A SaslHandshake answer, without its length. Raises `WireError`."""
    error, at = _skip_header(answer)
    if error == _ILLEGAL_SASL_STATE:
        return SaslHandshake(wanted=False, taken=False, mechanisms=())
    if error != _UNSUPPORTED_MECHANISM:
        _check_error_code(error)
    told, _ = _SaslHandshakeAnswer.read(answer, at, 0)
    return SaslHandshake(wanted=True, taken=error == 0, mechanisms=tuple(sorted(told.mechanisms)))


def _skip_header(answer: bytes) -> tuple[int, int]:
    number, at = read_int32(answer, 0)
    if number != 0:
        raise Invalid(f"expected the answer to request 0, got that to {number}")
    return read_int16(answer, at)


def _check_error_code(error: int) -> None:
    if error != 0:
        raise Invalid(f"expected no error, got {error}")
