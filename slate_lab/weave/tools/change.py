"""The tools that change files: `write edit`. Both note the hash of the whole file before and after."""

from __future__ import annotations

import hashlib

from slate_lab.tokens import clean
from slate_lab.weave.tools.kit import Kit
from slate_lab.weave.tools.workspace import ToolFailed

__all__ = ["edit", "write"]

MAX_BYTES = 4_000_000
"""The largest file that `edit` takes."""


def write(kit: Kit, path: str, text: str) -> str:
    """Write a text file, replacing what was there; makes its folders.

    Args:
        path: file in the workspace
        text: the whole new content
    """
    data = clean(text).encode()
    with kit.changing(path):
        if kit.workspace.changed_since(path, kit.seen):
            raise ToolFailed(f"{path} was changed since you read it: read it again, then write")
        before = kit.workspace.sha256(path, kit.check)
        _replace(kit, path, data, before=before)
    return f"{'replaced' if before is not None else 'created'} {path}, {len(data)} bytes"


def edit(kit: Kit, path: str, old: str, new: str) -> str:
    """Replace one passage of a text file. The old passage must occur exactly once.

    Args:
        path: file in the workspace
        old: the passage as it stands, with its line breaks
        new: what stands there afterwards
    """
    with kit.changing(path):
        data = _whole(kit, path)
        text = _decode(path, data)
        times = text.count(old) if old else 0
        if times != 1:
            raise ToolFailed(f"the old passage occurs {times} times in {path}: give one that occurs exactly once")
        _replace(kit, path, text.replace(old, clean(new)).encode(), before=hashlib.sha256(data).hexdigest())
    return f"edited {path}"


def _replace(kit: Kit, path: str, data: bytes, *, before: str | None) -> None:
    kit.check()
    name = str(kit.workspace.inside(path))
    kit.workspace.write_bytes(path, data, before=before)
    kit.saw(path)
    kit.changed(name, before=before, after=hashlib.sha256(data).hexdigest())


def _whole(kit: Kit, path: str) -> bytes:
    with kit.workspace.open(path) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ToolFailed(
            f"{path} is larger than {MAX_BYTES} bytes and cannot be edited: read it in parts, write a new one"
        )
    return data


def _decode(path: str, data: bytes) -> str:
    if b"\0" in data[:4096]:
        raise ToolFailed(f"{path} is not a text file")
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        raise ToolFailed(f"{path} is not UTF-8 text and is left as it is") from e
