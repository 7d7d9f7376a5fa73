"""Strict JSON with lines: the same keys as slate.yaml, for projects that keep slate.json.

In: the text of a file. Out: `Parsed`. Duplicate keys, NaN and Infinity are faults; a number keeps its spelling, so
that `1e3` and `500.0` are refused where an integer is meant, as in YAML. Called by `load`.
"""

from __future__ import annotations

import json
import json.decoder
import json.scanner
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from slate_lab.config.nodes import MAX_DEPTH, MAX_VALUES, Fault, Node, Parsed, Strict, Unreadable, encodable

__all__ = ["read_json"]

_Scan = Callable[[str, int], tuple[Any, int]]


def read_json(text: str) -> Parsed:
    """The one value of `text`, which must be an object."""
    decoder = _Decoder(text)
    try:
        root = decoder.decode(text)
    except json.JSONDecodeError as e:
        return Parsed(None, (*decoder.faults, Fault("json", f"not JSON: {e.msg}", e.lineno)))
    except Unreadable as e:
        return Parsed(None, (*decoder.faults, e.fault))
    assert isinstance(root, Node)
    if not isinstance(root.value, dict):
        return Parsed(None, (*decoder.faults, Fault("json", 'expected an object ({"key": value})', root.line)))
    return Parsed(root, tuple(decoder.faults))


class _Decoder(json.JSONDecoder):
    """The standard library's decoder, its scanner wrapped so that each value becomes a `Node` with its line."""

    def __init__(self, text: str) -> None:
        super().__init__(
            parse_int=Strict,
            parse_float=Strict,
            parse_constant=self._constant,
            object_pairs_hook=self._table,
        )
        self.faults: list[Fault] = []
        self._breaks = [i for i, char in enumerate(text) if char == "\n"]
        self._depth = self._values = 0
        self.parse_object = self._object
        self.parse_array = self._array
        self._inner: _Scan = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]
        self.scan_once = self._scan

    def _scan(self, text: str, index: int) -> tuple[Node, int]:
        value, end = self._inner(text, index)
        line = bisect_left(self._breaks, index) + 1
        self._values += 1
        if self._values > MAX_VALUES:
            raise Unreadable(Fault("json", f"more than {MAX_VALUES} values", line))
        if isinstance(value, bool):
            value = Strict(str(value).lower())
        elif isinstance(value, str) and not encodable(value):
            self.faults.append(Fault("text", "half of a character pair (a lone surrogate) is not text", line))
            value = value.encode("utf-8", "replace").decode()
        node = Node(line, value)
        if isinstance(value, dict):
            node.keys = {key: child.line for key, child in value.items()}
        return node, end

    def _object(self, start: tuple[str, int], strict: bool, scan: _Scan, hook: Any, pairs: Any, memo: Any) -> Any:
        self._enter(start)
        done = json.decoder.JSONObject(start, strict, self._scan, hook, pairs, memo)  # type: ignore[attr-defined]
        self._depth -= 1
        return done

    def _array(self, start: tuple[str, int], scan: _Scan) -> Any:
        self._enter(start)
        done = json.decoder.JSONArray(start, self._scan)  # type: ignore[attr-defined]
        self._depth -= 1
        return done

    def _enter(self, start: tuple[str, int]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            line = bisect_left(self._breaks, start[1]) + 1
            raise Unreadable(Fault("json", f"nested more than {MAX_DEPTH} deep", line))

    def _table(self, pairs: list[tuple[str, Node]]) -> dict[str, Node]:
        table: dict[str, Node] = {}
        for key, node in pairs:
            if key in table:
                first = table[key].line
                message = f"the key stands twice; first in line {first}"
                self.faults.append(Fault("duplicate_key", message, node.line, (key,)))
            elif not encodable(key):
                self.faults.append(Fault("text", "a key holds half of a character pair", node.line))
            else:
                table[key] = node
        return table

    def _constant(self, name: str) -> Strict:
        return Strict(name)  # NaN and Infinity: no typed field takes them
