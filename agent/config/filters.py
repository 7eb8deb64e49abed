"""Which groups and topics are shown, by patterns. Pure.

A pattern between slashes is a regular expression that must match the whole name; anything else is the name itself.
Names are strangers' text of up to 32,767 characters, and a pattern is tried on each: with Python's own `re` a
careless one such as `/(a+)+b/` would keep the reader busy for ever. So it is RE2, whose time is linear in the name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Protocol

import re2

from agent.config.values import TOPIC_NAME

CACHE_SIZE = 100_000
"""Names whose answers are remembered, of groups and of topics each: RE2 takes 5 µs a pattern from Python. All groups
are asked for in turn, each second; where there are more than are remembered, none is found."""

MAX_CACHED_LENGTH = 100
"""Characters of a name that is remembered: the memory of both caches stays below 130 MB whatever names come."""

_REGEX_MARKS = re.compile(r"[*+?^$|()\[\]{}]|\\.")

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True
# Group names may hold line breaks, and `/.*/` means all of them.
_OPTIONS.dot_nl = True


class _Regex(Protocol):
    def fullmatch(self, text: str) -> object | None: ...


class Filters:
    """Which groups and topics are shown and exported: those allowed (all unless some are), less those denied.

    The reader reads on for all groups, since a mirror of half a partition is none; what is left out is left out of
    metrics, API and history, and remembered all the same: a reload may show it. May be asked by several threads.
    """

    def __init__(
        self,
        allow_groups: Iterable[str] = (),
        deny_groups: Iterable[str] = (),
        allow_topics: Iterable[str] = (),
        deny_topics: Iterable[str] = (),
    ) -> None:
        """Each a list of patterns. Raises `ValueError` that says which is none, and why."""
        self.shows_group = _name_filter(allow_groups, deny_groups)
        """Whether a group of this name is shown."""
        self.shows_topic = _name_filter(allow_topics, deny_topics)
        """Whether a topic of this name is shown."""


def check_pattern(text: str) -> None:
    """Raise `ValueError` for what can be no pattern: it says what was expected and what came."""
    if _is_regex(text):
        _compiled(text)
    elif text.startswith("/"):
        raise ValueError(
            f"a regular expression stands between slashes, {text!r} only begins with one; "
            rf"/\{text}/ is the name that begins so"
        )
    elif not text:
        raise ValueError("expected a name or a /regular expression/, got nothing")


def check_topic_pattern(text: str) -> None:
    """As `check_pattern`, and a name must be one that a topic can have."""
    check_pattern(text)
    if not _is_regex(text) and not TOPIC_NAME.fullmatch(text):
        raise ValueError(
            f"no topic can be called {text!r} (letters, digits, '.', '_' and '-'); a regular expression stands "
            "between slashes"
        )


def looks_like_regex(text: str) -> bool:
    """Whether a literal name was perhaps meant as a regular expression or a wildcard."""
    return not _is_regex(text) and bool(_REGEX_MARKS.search(text))


def _is_regex(text: str) -> bool:
    return len(text) >= 2 and text.startswith("/") and text.endswith("/")


def _compiled(text: str) -> _Regex:
    try:
        regex: _Regex = re2.compile(text[1:-1], _OPTIONS)
    except re2.error as error:
        why = error.args[0]
        said = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise ValueError(f"{text!r} is no regular expression of RE2's syntax: {said}") from None
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} is no text") from None
    return regex


def _name_filter(allow: Iterable[str], deny: Iterable[str]) -> Callable[[str], bool]:
    allowed, denied = tuple(allow), tuple(deny)
    if not allowed and not denied:
        return lambda name: True
    is_allowed, is_denied = _matcher(allowed), _matcher(denied)
    if not allowed:
        return _cached(lambda name: not is_denied(name))
    return _cached(lambda name: is_allowed(name) and not is_denied(name))


def _matcher(texts: Iterable[str]) -> Callable[[str], bool]:
    literals: set[str] = set()
    regexes: list[_Regex] = []
    for text in texts:
        check_pattern(text)
        if _is_regex(text):
            regexes.append(_compiled(text))
        else:
            literals.add(text)
    return lambda name: name in literals or any(regex.fullmatch(name) for regex in regexes)


def _cached(rule: Callable[[str], bool]) -> Callable[[str], bool]:
    remembered = lru_cache(CACHE_SIZE)(rule)

    def shows(name: str) -> bool:
        return remembered(name) if len(name) <= MAX_CACHED_LENGTH else rule(name)

    return shows
