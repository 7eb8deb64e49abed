"""YAML of which few bytes cannot stand for many: aliases count as often as they are used; and no key comes twice."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

MAX_CHARACTERS = 1 << 20
"""Of a whole file, with what aliases stand for in place of them."""
MAX_KEY = 100
"""Characters of a key that are shown."""


def yaml_problem(error: Exception) -> str:
    """What keeps a text from being YAML, and where, on one line: without the text around, which may be a secret."""
    if isinstance(error, RecursionError):
        return "expected YAML: it is nested too deep"
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"expected YAML: {' '.join(str(error).split())}"
    mark, said = error.problem_mark, f"expected YAML: {error.problem or error.context}"
    return said if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: {said}"


class BoundedLoader(yaml.SafeLoader):
    """Raises `yaml.YAMLError` for a document that is too large once its aliases are followed, or refers to itself,
    where a mapping has a key twice (YAML would take the last), and for a scalar that its type cannot be made of."""

    def get_single_node(self) -> yaml.Node | None:
        """The document, before anything is made of it."""
        node: yaml.Node | None = super().get_single_node()
        if node is not None:
            _characters(node, {})
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """What a node stands for. Of `2026-02-30` yaml itself makes an error of Python's, with no place."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError):
            kind = node.tag.rpartition(":")[2]
            said = f"what looks like a value of type {kind} is none; a text is put between quotes"
            raise yaml.constructor.ConstructorError(None, None, said, node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping, each key of which is there once."""
        seen = set()
        for key in (it for it, _ in node.value if isinstance(it, yaml.ScalarNode)):
            if (key.tag, key.value) in seen:
                said = f"the key {key.value[:MAX_KEY]!r} stands there twice"
                raise yaml.constructor.ConstructorError(None, None, said, key.start_mark)
            seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


class TextLoader(BoundedLoader):
    """Leaves numbers and dates as they are written: a name or a password of digits is not to be another one. Only
    `true` and `false` are truths, as in YAML 1.2: `no` is a country, and `on` may be a group."""


TextLoader.yaml_implicit_resolvers = {
    first: [it for it in resolvers if it[0].rpartition(":")[2] not in ("int", "float", "timestamp", "bool")]
    for first, resolvers in BoundedLoader.yaml_implicit_resolvers.items()
}
_TRUTHS = re.compile("(true|True|TRUE|false|False|FALSE)$")
TextLoader.add_implicit_resolver("tag:yaml.org,2002:bool", _TRUTHS, [*"tTfF"])


def _characters(node: yaml.Node, known: dict[yaml.Node, int | None]) -> int:
    """How many a node stands for; `known` has those that were looked at, None while one is being looked at."""
    if node in known:
        found = known[node]
        if found is None:
            raise yaml.composer.ComposerError(None, None, "an alias within what it stands for", node.start_mark)
        return found
    known[node] = None
    match node:
        case yaml.MappingNode():
            size = sum(_characters(it, known) for pair in node.value for it in pair)
        case yaml.SequenceNode():
            size = sum(_characters(it, known) for it in node.value)
        case _:
            size = len(node.value)
    size += 1
    if size > MAX_CHARACTERS:
        said = f"expected at most {MAX_CHARACTERS} characters, there are more once aliases are followed"
        raise yaml.composer.ComposerError(None, None, said, node.start_mark)
    known[node] = size
    return size
