"""The tools that only look: `read grep find ls`. Large files are streamed; what was left out is said at the end."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import Any

import regex

from slate_lab.weave.tools.kit import Kit
from slate_lab.weave.tools.lines import PIECE, Piece, count_after, is_text, pieces
from slate_lab.weave.tools.sweep import Sweep
from slate_lab.weave.tools.walk import Found
from slate_lab.weave.tools.workspace import ToolFailed

__all__ = ["find", "grep", "ls", "read"]

MAX_LINES = 200
"""The most lines of matches or names in one result."""
MAX_PATTERN = 1_000
"""The longest pattern, in characters."""
SHOWN = 400
"""The most characters shown of a line that matches."""


def read(kit: Kit, path: str, offset: int = 1, limit: int = 400) -> str:
    """Read a text file. Returns its lines; says where to go on if there are more.

    Args:
        path: file in the workspace
        offset: first line, counted from 1
        limit: most lines to return
    """
    sweep = kit.sweep()
    kit.saw(path)
    shown: list[str] = []
    size, cut, last = 0, False, None
    with kit.workspace.open(path) as file:
        if not is_text(file):
            raise ToolFailed(f"{path} is not a text file")
        if offset < 1 or limit < 1:
            raise ToolFailed("offset and limit count from 1")
        for piece in pieces(file):
            last = piece
            if not sweep.go_on(piece.size if shown else 0):
                break
            if piece.number < offset:
                continue
            if not piece.first:
                cut = True  # the rest of a very long line
                continue
            size += len(piece.text) + 1
            if len(shown) == limit or (size > kit.max_chars and shown):
                break
            cut = cut or len(piece.text) > kit.max_chars
            shown.append(piece.text[: kit.max_chars])
        if last is None:
            return "(the file is empty)"
        total = None if sweep.cut else count_after(file, last, sweep)
    if not shown:
        raise ToolFailed(_beyond(path, last, total))
    return "\n".join(shown) + _more(kit, offset, offset - 1 + len(shown), total, cut=cut)


def grep(kit: Kit, pattern: str, path: str = ".", ignore_case: bool = False) -> str:
    """Search text files for a regular expression. Returns lines as path:line: text.

    Args:
        pattern: regular expression
        path: file or folder to search
        ignore_case: also match other letter case
    """
    wanted = _compile(pattern, ignore_case=ignore_case)
    sweep = kit.sweep()
    found: list[str] = []
    with kit.workspace.walk(path, sweep) as files:
        for hit in (hit for file in files for hit in _hits(wanted, file, sweep)):
            found.append(hit)
            if len(found) == MAX_LINES:
                more = f"(the first {MAX_LINES} matches; narrow the pattern or the path)"
                return kit.result(found, more, sweep.closing)
    return kit.result(found or [f"no line matches {pattern!r}"], sweep.closing)


def find(kit: Kit, name: str = "*", path: str = ".") -> str:
    """Find files by name. Returns their paths.

    Args:
        name: file name or pattern like *.md
        path: folder to look in
    """
    if len(name) > MAX_PATTERN:
        raise ToolFailed(f"the name has {len(name)} characters: give one of at most {MAX_PATTERN}")
    sweep = kit.sweep()
    found: list[str] = []
    over = 0
    with kit.workspace.walk(path, sweep) as files:
        for file in files:
            if not (fnmatch.fnmatch(file.name, name) or fnmatch.fnmatch(file.path, name)):
                continue
            if len(found) < MAX_LINES:
                found.append(file.path)
            else:
                over += 1
    more = f"({over} more; narrow the name)" if over else ""
    return kit.result(found or [f"no file is named {name!r} in {path}"], more, sweep.closing)


def ls(kit: Kit, path: str = ".") -> str:
    """List a folder. Folders end in a slash, files show their size in bytes.

    Args:
        path: folder
    """
    sweep = kit.sweep()
    rows = kit.workspace.entries(path, sweep)
    names = [f"{name}/" if folder else f"{name} ({size} bytes)" for name, folder, size in rows[:MAX_LINES]]
    more = f"({len(rows) - MAX_LINES} more)" if len(rows) > MAX_LINES else ""
    if not names and not sweep.closing:
        return "(the folder is empty)"
    return kit.result(names, more, sweep.closing)


def _beyond(path: str, last: Piece, total: int | None) -> str:
    if total is None:
        return f"line {last.number} of {path} is as far as one call gets: take a smaller offset, or use grep"
    return f"{path} has {total} lines: take an offset from 1 to {total}"


def _more(kit: Kit, first: int, last: int, total: int | None, *, cut: bool) -> str:
    note = f"\n(a line is cut: it has more than {kit.max_chars} characters; grep shows a match in it)" if cut else ""
    if total == last:
        return note
    of = f"more than {last}" if total is None else f"{total}"
    return f"{note}\n(lines {first}-{last} of {of}; read on with offset={last + 1})"


def _compile(pattern: str, *, ignore_case: bool) -> regex.Pattern[str]:
    if len(pattern) > MAX_PATTERN:
        raise ToolFailed(f"the pattern has {len(pattern)} characters: give one of at most {MAX_PATTERN}")
    try:
        return regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except (regex.error, ValueError, OverflowError, RecursionError) as e:
        raise ToolFailed(f"the pattern {pattern!r} is not a regular expression: {e}") from e


def _hits(wanted: regex.Pattern[str], file: Found, sweep: Sweep) -> Iterator[str]:
    """The lines of one file that match, as path:line: text; what keeps it from being searched is told to the sweep."""
    try:
        with file.open() as stream:
            if not is_text(stream):
                return
            for piece in pieces(stream):
                if not sweep.go_on(piece.size):
                    return
                if not piece.first:
                    sweep.remark(f"lines longer than {PIECE} bytes were searched in pieces")
                hit = wanted.search(piece.text, timeout=sweep.line_s)
                if hit:
                    yield f"{file.path}:{piece.number}: {_around(piece.text, hit)}"
    except MemoryError as e:
        raise ToolFailed(f"the pattern calls itself without end in {file.path}: make it simpler") from e
    except TimeoutError:
        sweep.skip("file", f"the pattern took over {sweep.line_s:g} s in a line, make it simpler")
    except OSError:
        sweep.skip("file", "not readable")


def _around(text: str, hit: regex.Match[Any]) -> str:
    """The line from its start, or where it is long the part with the match."""
    start = hit.start() - len(text) + len(text.lstrip())
    if start + min(hit.end() - hit.start(), SHOWN // 2) <= SHOWN:
        return text.strip()[:SHOWN]
    begin = hit.start() - SHOWN // 4
    return f"… {text[begin : begin + SHOWN].strip()}"
