"""Changes of a YAML text at places that its nodes tell: items and keys put in, replaced, taken out. No I/O.

The rest of the text stays to the byte: comments, order, quotes, indentation. Where a collection is written in flow
style (`[…]`, `{…}`, JSON), what is put in is JSON.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import yaml
from yaml import CollectionNode, MappingNode, Node, SequenceNode

from agent.tools.sidecar.manifests import ManifestError, child, is_null, pairs, text_of

_NO_WIDTH = 1 << 30
_TEXT = "tag:yaml.org,2002:str"


class _Edit(NamedTuple):
    start: int
    end: int
    new: str


class YamlEdits:
    """Changes to come of one text; places are of the text as it was."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits: list[_Edit] = []
        self._line_end = "\r\n" if "\r\n" in text else "\n"

    def apply(self) -> str:
        """The text with all changes in it."""
        out, at = [], 0
        for edit in sorted(self._edits, key=lambda it: it.start):
            out += [self._text[at : edit.start], edit.new.replace("\n", self._line_end)]
            at = max(at, edit.end)
        return "".join((*out, self._text[at:]))

    def put_item(self, parent: MappingNode, key: str, item: dict[str, Any], *, behind: str) -> None:
        """Into the list that `parent` has at `key`: in the place of the item of the same name, else at the end. Where
        there is no list, one comes behind the key `behind`."""
        items = child(parent, key)
        if items is None:
            self._put_key(parent, key, [item], behind=behind)
        elif is_null(items):
            self._replace_nothing(parent, items, [item])
        elif not isinstance(items, SequenceNode):
            raise ManifestError(f"line {items.start_mark.line + 1}: {key}: expected a list")
        else:
            _at_home(parent, key, items)
            old = next((it for it in items.value if text_of(child(it, "name")) == item["name"]), None)
            if old is None:
                self._append(items, item)
            else:
                self._replace(old, item)

    def put_text(self, parent: MappingNode, key: str, value: str) -> None:
        """A text at a key of a mapping that is not empty."""
        old = child(parent, key)
        if old is None:
            self._put_key(parent, key, value, behind=str(text_of(parent.value[-1][0])))
        elif (old.tag, old.value) != (_TEXT, value):
            self._edits.append(_Edit(old.start_mark.index, old.end_mark.index, json.dumps(value)))

    def put_mapping(self, parent: MappingNode, key: str, value: dict[str, Any]) -> None:
        """A mapping at a key where there is none, or nothing in it."""
        old = child(parent, key)
        if old is None:
            self._put_key(parent, key, value, behind=str(text_of(parent.value[-1][0])))
        else:
            self._replace_nothing(parent, old, value)

    def remove_item(self, parent: MappingNode, key: str, name: str) -> None:
        """Out of the list, if it is there; a list of nothing else goes as a whole."""
        items = child(parent, key)
        if not isinstance(items, SequenceNode):
            return
        found = [text_of(child(it, "name")) for it in items.value]
        if name not in found:
            return
        _at_home(parent, key, items)
        at = found.index(name)
        if len(found) > 1:
            self._take(items, [(it, it) for it in items.value], at)
        else:
            keys = [text_of(it) for it, _ in parent.value]
            self._take(parent, parent.value, keys.index(key))

    def _take(self, within: CollectionNode, ranges: list[tuple[Node, Node]], at: int) -> None:
        first, last = ranges[at]
        if not within.flow_style:
            dash = isinstance(within, SequenceNode)
            start = self._text.rindex("-", 0, first.start_mark.index) if dash else first.start_mark.index
            self._edits.append(_Edit(self._line_of(start), self._after(first, last), ""))
        elif at + 1 < len(ranges):
            self._edits.append(_Edit(first.start_mark.index, ranges[at + 1][0].start_mark.index, ""))
        else:
            start = ranges[at - 1][1].end_mark.index if at else first.start_mark.index
            self._edits.append(_Edit(start, last.end_mark.index, ""))

    def _append(self, items: SequenceNode, item: dict[str, Any]) -> None:
        last = items.value[-1]
        if items.flow_style:
            self._edits.append(_Edit(last.end_mark.index, last.end_mark.index, self._beside(last, item)))
        else:
            column = self._column(items)
            self._insert(self._behind_comments(self._after(last, last), column), _block([item], column))

    def _replace(self, old: Node, item: dict[str, Any]) -> None:
        start, end = old.start_mark.index, _end(old)
        if _is_flow(old):
            new = _json(item, self._indent_of(start))
        else:
            # The first line has its indentation already; what a block scalar ends with stays.
            new = _block(item, old.start_mark.column).lstrip(" ").rstrip("\n")
            new += "\n" if self._text[end - 1] == "\n" else ""
        self._edits.append(_Edit(start, end, new))

    def _replace_nothing(self, parent: MappingNode, old: Node, value: Any) -> None:
        new = _json(value)
        if not parent.flow_style:
            indent = self._column(parent) + (2 if isinstance(value, dict) else 0)
            new = "\n" + _block(value, indent).rstrip("\n")
        self._edits.append(_Edit(old.start_mark.index, old.end_mark.index, new))

    def _put_key(self, parent: MappingNode, key: str, value: Any, *, behind: str) -> None:
        name, last = next((name, node) for name, node in pairs(parent) if text_of(name) == behind)
        if not parent.flow_style:
            column = self._column(parent)
            self._insert(self._behind_comments(self._after(name, last), column), _block({key: value}, column))
            return
        if last.start_mark.index < name.start_mark.index:
            raise _alias(name, behind)
        self._edits.append(_Edit(last.end_mark.index, last.end_mark.index, self._beside(name, value, key)))

    def _insert(self, at: int, lines: str) -> None:
        if at and self._text[at - 1] != "\n":
            # The last line of the text, which does not end.
            lines = "\n" + lines.rstrip("\n")
        self._edits.append(_Edit(at, at, lines))

    def _beside(self, other: Node, value: Any, key: str | None = None) -> str:
        """What comes behind something in flow style: on a line of its own where that is."""
        lead = "" if key is None else f"{json.dumps(key)}: "
        indent = self._indent_of(other.start_mark.index)
        if indent is None:
            return f", {lead}{_json(value)}"
        return f",\n{' ' * indent}{lead}{_json(value, indent)}"

    def _column(self, block: CollectionNode) -> int:
        """Of its keys or dashes: the block itself may begin with an anchor, in the line before."""
        first = block.value[0]
        if isinstance(block, MappingNode):
            return int(first[0].start_mark.column)
        dash = self._text.rindex("-", 0, first.start_mark.index)
        return dash - self._line_of(dash)

    def _indent_of(self, index: int) -> int | None:
        """The blanks before it, where nothing else is in its line."""
        before = self._text[self._line_of(index) : index]
        return len(before) if not before.strip(" ") else None

    def _line_of(self, index: int) -> int:
        return self._text.rfind("\n", 0, index) + 1

    def _behind_comments(self, at: int, column: int) -> int:
        """Behind the comments that stand further right: they are about what is before them."""
        while True:
            line = self._text[at : self._text.find("\n", at) + 1]
            indent = len(line) - len(line.lstrip(" "))
            if indent <= column or line[indent] != "#":
                return at
            at += len(line)

    def _after(self, first: Node, last: Node) -> int:
        """Where the line behind both begins."""
        end = max(_end(first), _end(last))
        if self._text[end - 1 : end] == "\n":
            return end
        line_end = self._text.find("\n", end)
        return len(self._text) if line_end < 0 else line_end + 1


def _end(node: Node) -> int:
    """Behind its last character. Of a block that is not where its node ends: comments may follow."""
    if not isinstance(node, CollectionNode) or _is_flow(node):
        return int(node.end_mark.index)
    ends = [node.start_mark.index]
    for item in node.value:
        # What an alias stands for is somewhere else: behind it there is at least its line.
        ends += map(_end, item if isinstance(node, MappingNode) else [item])
    return int(max(ends))


def _is_flow(node: Node) -> bool:
    return isinstance(node, CollectionNode) and bool(node.flow_style)


def _at_home(parent: MappingNode, key: str, items: SequenceNode) -> None:
    """Raises `ManifestError` where a list, or its last item, is written elsewhere."""
    name = next(name for name, _ in parent.value if text_of(name) == key)
    starts = [name.start_mark.index, items.start_mark.index, *(it.start_mark.index for it in items.value)]
    if starts != sorted(starts):
        raise _alias(name, key)


def _alias(name: Node, key: str) -> ManifestError:
    line = name.start_mark.line + 1
    return ManifestError(f"line {line}: {key}: an alias stands there; write out what it means, to have it patched")


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _block(value: Any, indent: int) -> str:
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_NO_WIDTH)
    return "".join(" " * indent + line for line in text.splitlines(keepends=True))


def _json(value: Any, indent: int | None = None) -> str:
    """In one line, or where it stands alone in its line, so far from the left, in several."""
    if indent is None:
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + " " * indent)
