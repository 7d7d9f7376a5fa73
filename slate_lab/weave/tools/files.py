"""The file tools: `read grep find ls` look, `write edit` change. All paths stay inside the workspace."""

from __future__ import annotations

import fnmatch

import regex

from slate_lab.tokens import clean
from slate_lab.weave.tools.kit import Kit
from slate_lab.weave.tools.workspace import ToolFailed

__all__ = ["edit", "find", "grep", "ls", "read", "write"]

MAX_BYTES = 4_000_000
"""The largest file the tools look into."""
SECONDS = 5.0
"""How long one pattern may search."""
MAX_LINES = 200
"""The most lines of matches or names in one result."""


def read(kit: Kit, path: str, offset: int = 1, limit: int = 400) -> str:
    """Read a text file. Returns its lines; says where to go on if there are more.

    Args:
        path: file in the workspace
        offset: first line, counted from 1
        limit: most lines to return
    """
    lines = _lines(_text(kit, path))
    if offset < 1 or limit < 1:
        raise ToolFailed("offset and limit count from 1")
    if not lines:
        return "(the file is empty)"
    if offset > len(lines):
        raise ToolFailed(f"{path} has {len(lines)} lines: take an offset from 1 to {len(lines)}")
    shown: list[str] = []
    size = 0
    for line in lines[offset - 1 : offset - 1 + limit]:
        size += len(line) + 1
        if size > kit.max_chars and shown:
            break
        shown.append(line[: kit.max_chars])
    last = offset - 1 + len(shown)
    more = "" if last == len(lines) else f"\n(lines {offset}-{last} of {len(lines)}; read on with offset={last + 1})"
    return "\n".join(shown) + more


def grep(kit: Kit, pattern: str, path: str = ".", ignore_case: bool = False) -> str:
    """Search text files for a regular expression. Returns lines as path:line: text.

    Args:
        pattern: regular expression
        path: file or folder to search
        ignore_case: also match other letter case
    """
    try:
        wanted = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except regex.error as e:
        raise ToolFailed(f"the pattern {pattern!r} is not a regular expression: {e}") from e
    found: list[str] = []
    for file in kit.workspace.walk(path):
        data = kit.workspace.read_bytes(str(file), limit=MAX_BYTES)
        if b"\0" in data[:4096]:
            continue
        for number, line in enumerate(_lines(_decode(data)), 1):
            try:
                hit = wanted.search(line, timeout=SECONDS)
            except TimeoutError as e:
                raise ToolFailed(f"the pattern took over {SECONDS:g} s at {file}:{number}: make it simpler") from e
            if hit:
                found.append(f"{file}:{number}: {line.strip()[:400]}")
                if len(found) == MAX_LINES:
                    return _fit(kit, [*found, f"(the first {MAX_LINES} matches; narrow the pattern or the path)"])
    return _fit(kit, found) if found else f"no line matches {pattern!r}"


def find(kit: Kit, name: str = "*", path: str = ".") -> str:
    """Find files by name. Returns their paths.

    Args:
        name: file name or pattern like *.md
        path: folder to look in
    """
    files = [str(f) for f in kit.workspace.walk(path) if fnmatch.fnmatch(f.name, name) or fnmatch.fnmatch(str(f), name)]
    if not files:
        return f"no file is named {name!r} in {path}"
    more = [f"({len(files) - MAX_LINES} more; narrow the name)"] if len(files) > MAX_LINES else []
    return _fit(kit, files[:MAX_LINES] + more)


def ls(kit: Kit, path: str = ".") -> str:
    """List a folder. Folders end in a slash, files show their size in bytes.

    Args:
        path: folder
    """
    names = [f"{name}/" if folder else f"{name} ({size} bytes)" for name, folder, size in kit.workspace.entries(path)]
    more = [f"({len(names) - MAX_LINES} more)"] if len(names) > MAX_LINES else []
    return _fit(kit, names[:MAX_LINES] + more) if names else "(the folder is empty)"


def write(kit: Kit, path: str, text: str) -> str:
    """Write a text file, replacing what was there; makes its folders.

    Args:
        path: file in the workspace
        text: the whole new content
    """
    before = _bytes(kit, path)
    data = clean(text).encode()
    kit.workspace.write_bytes(path, data)
    kit.changed(str(kit.workspace.inside(path)), before=before, after=data)
    return f"{'replaced' if before is not None else 'created'} {path}, {len(data)} bytes"


def edit(kit: Kit, path: str, old: str, new: str) -> str:
    """Replace one passage of a text file. The old passage must occur exactly once.

    Args:
        path: file in the workspace
        old: the passage as it stands, with its line breaks
        new: what stands there afterwards
    """
    text = _text(kit, path, exact=True)
    times = text.count(old) if old else 0
    if times != 1:
        raise ToolFailed(f"the old passage occurs {times} times in {path}: give one that occurs exactly once")
    data = text.replace(old, clean(new)).encode()
    kit.workspace.write_bytes(path, data)
    kit.changed(str(kit.workspace.inside(path)), before=text.encode(), after=data)
    return f"edited {path}"


def _bytes(kit: Kit, path: str) -> bytes | None:
    if not (kit.workspace.root / kit.workspace.inside(path)).exists():
        return None
    return kit.workspace.read_bytes(path, limit=MAX_BYTES)


def _text(kit: Kit, path: str, *, exact: bool = False) -> str:
    data = kit.workspace.read_bytes(path, limit=MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ToolFailed(f"{path} is larger than {MAX_BYTES} bytes: use grep")
    if b"\0" in data[:4096]:
        raise ToolFailed(f"{path} is not a text file")
    if exact:
        try:
            return data.decode()
        except UnicodeDecodeError as e:
            raise ToolFailed(f"{path} is not UTF-8 text and is left as it is") from e
    return _decode(data)


def _decode(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace")


def _lines(text: str) -> list[str]:
    """Lines by line feed only, as editors count them."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _fit(kit: Kit, lines: list[str]) -> str:
    text = "\n".join(lines)
    if len(text) <= kit.max_chars:
        return text
    kept = text[: kit.max_chars].rpartition("\n")[0] or text[: kit.max_chars]
    return kept + "\n(cut here: ask for less)"
