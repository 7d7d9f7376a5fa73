"""Strict YAML: nothing is guessed, nothing is run, everything knows its line.

In: the text of a file. Out: `Parsed`. A scalar stays what the author typed; duplicate keys, tags, merge keys, several
documents and endless aliases are faults. It reads PyYAML's events and not its trees, because only events tell a tag
that was written from one that was guessed, and because deep nesting cannot exhaust the stack. Called by `load`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from slate_lab.config.nodes import MAX_DEPTH, MAX_VALUES, Fault, Node, Parsed, Path, Plain, Unreadable, encodable

__all__ = ["read_yaml"]

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


def read_yaml(text: str) -> Parsed:
    """The one document of `text`; an empty text is an empty table."""
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=yaml.BaseLoader):
            builder.feed(event)
    except Unreadable as e:
        return Parsed(None, (*builder.faults, e.fault))
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        said = " ".join(part for part in (e.context, e.problem) if part)
        return Parsed(None, (*builder.faults, Fault("yaml", f"not YAML: {said}", mark.line + 1 if mark else None)))
    except (yaml.YAMLError, ValueError, OverflowError) as e:  # PyYAML lets bad characters and \U escapes out as these
        return Parsed(None, (*builder.faults, Fault("yaml", f"not YAML: {str(e).splitlines()[0]}")))
    root = builder.root
    if root is None or root.value is None:
        root = Node(1, {})
    if not isinstance(root.value, dict):
        return Parsed(None, (*builder.faults, Fault("yaml", "expected keys and values (`key: value`)", root.line)))
    return Parsed(root, tuple(builder.faults))


@dataclass
class _Open:
    """A table or list that is being read; `key` is the table's key whose value comes next (None: ignore that value)."""

    node: Node
    anchor: str | None
    path: Path
    awaits_key: bool = True
    key: str | None = None


@dataclass
class _Builder:
    root: Node | None = None
    faults: list[Fault] = field(default_factory=list)
    _stack: list[_Open] = field(default_factory=list)
    _anchors: dict[str, Node] = field(default_factory=dict)
    _documents: int = 0
    _size: int = 0

    def feed(self, event: Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise Unreadable(Fault("yaml", "a second document (`---`) begins here: keep one", line))
        elif isinstance(event, AliasEvent):
            self._alias(event, line)
        elif isinstance(event, ScalarEvent):
            self._scalar(event, line)
        elif isinstance(event, MappingStartEvent | SequenceStartEvent):
            self._start(event, line)
        elif isinstance(event, CollectionEndEvent):
            done = self._stack.pop()
            done.node.size += _inner(done.node)
            done.node.depth += _deepest(done.node)
            if done.anchor is not None:
                self._anchors[done.anchor] = done.node

    def _scalar(self, event: ScalarEvent, line: int) -> None:
        self._tagged(event, line, written=not (event.implicit[0] or event.implicit[1]))
        text = event.value
        if not encodable(text):
            self._fault("text", "half of a character pair (a lone surrogate) is not text", line)
            text = text.encode("utf-8", "replace").decode()
        plain = event.style is None
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.node.value, dict) and top.awaits_key:
            self._key(top, text, plain=plain, line=line)
            return
        node = Node(line, None if plain and text in _NULLS else Plain(text) if plain else text)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        self._place(node)

    def _key(self, top: _Open, text: str, *, plain: bool, line: int) -> None:
        top.awaits_key, top.key = False, None
        assert isinstance(top.node.value, dict)
        if plain and text in _NULLS:
            self._fault("key", "a key is missing before the colon", line)
        elif plain and text == "<<":
            self._fault("key", "merge keys (`<<`) are not read: write the keys out", line)
        elif text in top.node.value:
            first = top.node.keys[text]
            self._fault("duplicate_key", f"the key stands twice; first in line {first}", line, (*top.path, text))
        else:
            top.key = text
            top.node.keys[text] = line

    def _start(self, event: MappingStartEvent | SequenceStartEvent, line: int) -> None:
        self._tagged(event, line, written=event.tag is not None)
        if len(self._stack) >= MAX_DEPTH:
            raise Unreadable(Fault("yaml", f"nested more than {MAX_DEPTH} deep", line))
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.node.value, dict) and top.awaits_key:
            raise Unreadable(Fault("key", "a key must be text, not a list or a table", line, top.path))
        node = Node(line, {} if isinstance(event, MappingStartEvent) else [])
        path = self._path()
        self._place(node)
        self._stack.append(_Open(node, event.anchor, path))

    def _alias(self, event: AliasEvent, line: int) -> None:
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.node.value, dict) and top.awaits_key:
            raise Unreadable(Fault("key", "a key must be text, not an alias", line, top.path))
        node = self._anchors.get(event.anchor or "")
        if any(opened.anchor == event.anchor for opened in self._stack):
            raise Unreadable(Fault("alias", f"*{event.anchor} stands inside its own anchor", line))
        if node is None:
            raise Unreadable(Fault("alias", f"*{event.anchor} has no anchor &{event.anchor} before it", line))
        if len(self._stack) + node.depth > MAX_DEPTH:
            raise Unreadable(Fault("alias", f"*{event.anchor} nests more than {MAX_DEPTH} deep", line))
        self._place(Node(line, node.value, node.keys, node.size, node.depth))

    def _place(self, node: Node) -> None:
        self._size += node.size
        if self._size > MAX_VALUES:
            raise Unreadable(Fault("yaml", f"more than {MAX_VALUES} values (aliases count each time)", node.line))
        if not self._stack:
            self.root = node
            return
        top = self._stack[-1]
        if isinstance(top.node.value, list):
            top.node.value.append(node)
        elif isinstance(top.node.value, dict):
            top.awaits_key = True
            if top.key is not None:
                top.node.value[top.key] = node

    def _path(self) -> Path:
        if not self._stack:
            return ()
        top = self._stack[-1]
        if isinstance(top.node.value, list):
            return (*top.path, len(top.node.value))
        return top.path if top.key is None else (*top.path, top.key)

    def _tagged(self, event: NodeEvent, line: int, *, written: bool) -> None:
        if written or getattr(event, "tag", None) is not None:
            self._fault("tag", "tags (`!...`) are not read: write the value plainly", line)

    def _fault(self, code: str, message: str, line: int, path: Path | None = None) -> None:
        self.faults.append(Fault(code, message, line, self._path() if path is None else path))


def _children(node: Node) -> list[Node]:
    if isinstance(node.value, dict):
        return list(node.value.values())
    return node.value if isinstance(node.value, list) else []


def _inner(node: Node) -> int:
    return sum(child.size for child in _children(node))


def _deepest(node: Node) -> int:
    return max((child.depth for child in _children(node)), default=0)
