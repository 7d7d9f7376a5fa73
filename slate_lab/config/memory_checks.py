"""What several declarations of memory must agree on: names that stand once, seeds that fit, targets that exist.

In: the merged file as plain values (each field may still be wrong, `schema` says so) and the places of its keys.
Out: every problem, each at its place. Called by `load`, beside the validation of the single fields.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

from slate_lab import tokens
from slate_lab.config.items import read_items
from slate_lab.config.memory import BLANK, TagType, read_tag
from slate_lab.config.nodes import Path
from slate_lab.config.values import read_whole, shown
from slate_lab.errors import Place, Problem
from slate_lab.records import near

__all__ = ["memory_problems", "seeds_of"]

_Place = Callable[[Path], Place]
_Tags = dict[str, Any]


def seeds_of(name: str, init: str) -> list[str]:
    """The blocks a file begins with: none, one text, or one block per item of a JSON array of objects.

    Raises:
        ValueError: the file is called `.json` and the text is no such array.
    """
    if init in ("", BLANK):
        return []
    try:
        return read_items(init) if init.lstrip().startswith("[") else _text(name, init)
    except ValueError:
        if name.endswith(".json"):
            raise
        return [init]


def _text(name: str, init: str) -> list[str]:
    if name.endswith(".json"):
        raise ValueError("expected a JSON array of objects")
    return [init]


def memory_problems(values: Mapping[str, Any], place: _Place) -> list[Problem]:
    """Everything wrong with the slates together, and with the targets of thread types."""
    slates = list(_tables(values.get("slates")))
    found = list(_twice("title", "slates", [(("slates", i), s.get("title")) for i, s in slates], place))
    for i, slate in slates:
        found += _slate_problems(("slates", i), slate, place)
    types = values.get("threadTypes")
    if isinstance(types, dict):
        for name, kind in types.items():
            for key in ("reads", "writes"):
                for i, target in _tables(kind.get(key) if isinstance(kind, dict) else None):
                    found += _target_problems(("threadTypes", name, key, i), target, [s for _, s in slates], place)
    return found


def _slate_problems(path: Path, slate: Mapping[str, Any], place: _Place) -> Iterator[Problem]:
    folders = list(_tables(slate.get("folders")))
    yield from _twice("name", "folders", [((*path, "folders", i), f.get("name")) for i, f in folders], place)
    for i, folder in folders:
        here: Path = (*path, "folders", i)
        files = list(_tables(folder.get("files")))
        yield from _twice("name", "files", [((*here, "files", n), f.get("name")) for n, f in files], place)
        yield from _tag_problems(here, folder, place)
        for n, file in files:
            yield from _tag_problems((*here, "files", n), file, place)
        yield from _seed_problems(here, folder, files, place)


def _tag_problems(path: Path, owner: Mapping[str, Any], place: _Place) -> Iterator[Problem]:
    tags = [((*path, "metatags", i), tag.get("name")) for i, tag in _tables(owner.get("metatags"))]
    return _twice("name", "metatags", tags, place)


def _twice(key: str, what: str, named: list[tuple[Path, Any]], place: _Place) -> Iterator[Problem]:
    """Names that stand twice, also when they differ only in how their characters are composed."""
    first: dict[str, tuple[str, Path]] = {}
    for path, value in named:
        if not isinstance(value, str):
            continue
        text = str.__str__(value)
        spelled, before = first.setdefault(_normal(text), (text, path))
        if before != path:
            how = "" if spelled == text else " (the two differ only in how their characters are composed)"
            line = place((*before, key)).line
            where = f"first in line {line}" if line else f"first as {what}[{before[-1]}]"
            yield Problem("duplicate_name", f"the {key} {shown(text)} stands twice, {where}{how}", place((*path, key)))


def _seed_problems(
    path: Path, folder: Mapping[str, Any], files: list[tuple[int, Mapping[str, Any]]], place: _Place
) -> Iterator[Problem]:
    try:
        limit: int | None = read_whole(folder.get("tokenLimit"))
    except ValueError:
        limit = None  # the field itself is a problem of its own
    total = 0
    for i, file in files:
        name, init = file.get("name"), file.get("init")
        if not isinstance(init, str) or not isinstance(name, str):
            continue
        here = (*path, "files", i, "init")
        try:
            seeds = seeds_of(name, str.__str__(init))
        except ValueError as error:
            yield Problem("bad_seed", f"{shown(name)} is a JSON file: {error}", place(here))
            continue
        sizes = [tokens.count(tokens.clean(seed)) for seed in seeds]
        total += sum(sizes)
        if limit is not None and sum(sizes) > limit:
            message = f"this seed takes {sum(sizes)} tokens, and tokenLimit is {limit}: shorten it or raise the limit"
            yield Problem("seed_too_large", message, place(here))
            total -= sum(sizes)
    if limit is not None and total > limit > 0:
        message = f"the seeds of its files take {total} tokens together, and tokenLimit is {limit}"
        yield Problem("seeds_too_large", f"{message}: shorten them or raise the limit", place((*path, "tokenLimit")))


def _target_problems(
    path: Path, target: Mapping[str, Any], slates: list[Mapping[str, Any]], place: _Place
) -> Iterator[Problem]:
    titles = {_normal(s["title"]): s for s in reversed(slates) if isinstance(s.get("title"), str)}
    slate, missing = _find("slate", target.get("slate"), titles, (*path, "slate"), place)
    if missing:
        yield missing
    if slate is None:
        return
    folders = {_normal(f["name"]): f for _, f in _tables(slate.get("folders")) if isinstance(f.get("name"), str)}
    folder, missing = _find("folder", target.get("folder"), folders, (*path, "folder"), place)
    if missing:
        yield missing
    if folder is None:
        return
    if path[-2] == "writes" and folder.get("access") == "read":
        yield Problem("access_denied", "this folder can be read but not written (access: read)", place(path))
    where, tags = target.get("where"), _declared(folder, target.get("file"))
    for name, value in where.items() if isinstance(where, dict) else ():
        here = (*path, "where", name)
        if _normal(name) not in tags:
            close = near(name, tags)
            hint = f"did you mean {close[0]}?" if close else f"declared are {', '.join(tags) or 'none'}"
            yield Problem("unknown_tag", f"no metatag {shown(name)} is declared there: {hint}", place(here))
            continue
        kind = tags[_normal(name)]
        try:
            if kind in get_args(TagType):
                read_tag(kind, value)
        except ValueError as error:
            yield Problem("wrong_value", str(error), place(here))


def _find(
    what: str, value: Any, known: Mapping[str, Mapping[str, Any]], path: Path, place: _Place
) -> tuple[Mapping[str, Any] | None, Problem | None]:
    if not isinstance(value, str):
        return None, None
    found = known.get(_normal(value))
    if found is not None:
        return found, None
    close = near(value, known)
    hint = f"did you mean {close[0]}?" if close else f"declared are {', '.join(known) or 'none'}"
    return None, Problem(f"unknown_{what}", f"there is no {what} {shown(value)}: {hint}", place(path))


def _declared(folder: Mapping[str, Any], file: Any) -> _Tags:
    """The metatags of a folder, with those of the file over them (of every file, where none is named)."""
    tags = _types(folder)
    for _, spec in _tables(folder.get("files")):
        name = spec.get("name")
        if file is None or (isinstance(name, str) and isinstance(file, str) and _normal(name) == _normal(file)):
            tags |= _types(spec) if file is not None else {k: v for k, v in _types(spec).items() if k not in tags}
    return tags


def _types(owner: Mapping[str, Any]) -> _Tags:
    return {
        _normal(tag["name"]): str(tag.get("type"))
        for _, tag in _tables(owner.get("metatags"))
        if isinstance(tag.get("name"), str)
    }


def _tables(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The tables of a list with their places in it; whatever else stands there is a problem of its field."""
    return ((i, item) for i, item in enumerate(value if isinstance(value, list) else ()) if isinstance(item, dict))


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", text)
