"""What can be wrong with bytes. Every reader in `agent.core.wire` raises these and nothing else."""

from __future__ import annotations

from typing import ClassVar


class WireError(ValueError):
    """Bytes that are not what the schema says.

    `kind` is a short stable name (a metric label, so from a fixed set). The message says what was
    expected and what came; `path` names the field, outermost first.
    """

    kind: ClassVar[str] = "invalid"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.path: tuple[str, ...] = ()

    def prepend_path(self, name: str) -> None:
        """Note that the error came up while reading `name`, an enclosing field or message."""
        self.path = (name, *self.path)

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}: {self.message}" if self.path else self.message


class Truncated(WireError):
    """The bytes end before the value does."""

    kind = "truncated"


class TrailingBytes(WireError):
    """The value ends before the bytes do."""

    kind = "trailing_bytes"


class Invalid(WireError):
    """A length, a varint, a null, a tag or a text that no writer may produce."""

    kind = "invalid"


class UnknownKeyType(WireError):
    """A key type (the first two bytes of a key) that this version does not know."""

    kind = "unknown_key_type"


class UnknownVersion(WireError):
    """A value (or payload) version that this version does not know."""

    kind = "unknown_version"


class InternalFault(WireError):
    """Bytes that were decoded, and could not be applied: a fault of ours."""

    kind = "internal"


KINDS = tuple(cls.kind for cls in (Truncated, TrailingBytes, Invalid, UnknownKeyType, UnknownVersion, InternalFault))
"""Every kind there is: the bound of the `reason` label of `kshadow_decode_errors_total`."""
