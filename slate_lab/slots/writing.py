"""Writing a slot: its code, its manifest, and one entry more in the pipeline, without touching the rest of that file.

In: where it goes and its code. Out: the files that were written; wrong code or a broken surface changes nothing. Called
by the magic that makes a slot of a cell.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from slate_lab.errors import LabError
from slate_lab.slots.pipelines import PHASES, Lane, Phase
from slate_lab.slots.surface import PIPELINES, load_surface, surface_folder

__all__ = ["with_entry", "write_slot"]

_WHERE = re.compile(rf"({'|'.join(PHASES)})/([A-Za-z0-9][A-Za-z0-9._-]{{0,63}})", re.ASCII)


def write_slot(
    project: Path,
    surface: str,
    where: str,
    code: str,
    *,
    manifest: Mapping[str, object],
    lane: Lane = "serial",
    base: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write the slot `where` (`input/recall`) with `code`, and list it in its phase.

    Args:
        manifest: fields of slot.yaml; with none, a manifest that is there stays as it is.
        lane: where it is listed, if it is not listed in its phase already.
        base: files of a surface, by path, written first where the project has none.

    Raises:
        LabError: no such phase, no such name, no function `process(ctx)`, or a surface that would not load; nothing
            is changed then.
    """
    match = _WHERE.fullmatch(where)
    if match is None:
        raise LabError(f"{where!r} is no place of a slot: write {', '.join(f'{p}/NAME' for p in PHASES)}", code="usage")
    phase, id = match[1], match[2]
    _check_code(code)
    folder = surface_folder(project, surface)
    files: dict[Path, str] = {}
    if not (folder / PIPELINES).exists():
        files = {folder / name: text for name, text in (base or {PIPELINES: "schema_version: 1\n"}).items()}
    pipelines = folder / PIPELINES
    text = files.get(pipelines) or pipelines.read_text(encoding="utf-8")
    files[folder / phase / id / "module.py"] = code.rstrip("\n") + "\n"
    sheet = folder / phase / id / "slot.yaml"
    if manifest or not sheet.exists():
        files[sheet] = yaml.safe_dump(dict(manifest), sort_keys=False) if manifest else "description: Made in a cell.\n"
    files[pipelines] = with_entry(text, phase, lane, id)  # type: ignore[arg-type]
    return _written(files, project, surface)


def _check_code(code: str) -> None:
    try:
        tree = ast.parse(code)
    except SyntaxError as e:
        raise LabError(f"line {e.lineno} of the cell is no Python: {e.msg}", code="entrypoint") from e
    if not any(isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name == "process" for n in tree.body):
        raise LabError("the cell defines no function: write `def process(ctx): ...`", code="entrypoint")


def _written(files: Mapping[Path, str], project: Path, surface: str) -> list[Path]:
    """Write all files; if the surface does not load with them, put everything back."""
    before = {path: path.read_bytes() if path.exists() else None for path in files}
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        load_surface(project, surface)
    except (LabError, OSError):
        for path, raw in before.items():
            if raw is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(raw)
        raise
    return [path for path, text in files.items() if before[path] != text.encode()]


def with_entry(text: str, phase: Phase, lane: Lane, id: str) -> str:
    """The text of pipelines.yaml with `id` at the end of a lane; every other character stays.

    Raises:
        LabError: the file cannot be read, or its form leaves no safe place for the entry.
    """
    try:
        root, values = yaml.compose(text, Loader=yaml.SafeLoader), yaml.safe_load(text) or {}
    except yaml.YAMLError as e:
        raise LabError(f"{PIPELINES} is not YAML: mend it first ({e})", code="no_pipelines") from e
    wanted = values.get(phase) if isinstance(values, dict) else None
    if isinstance(wanted, dict) and any(id in (ids or ()) for ids in wanted.values() if isinstance(ids, list)):
        return text
    node = _child(root, phase)
    if node is None:
        edited = f"{text.rstrip()}\n{phase}:\n  {lane}:\n    - {id}\n" if text.strip() else text
    elif isinstance(node, yaml.MappingNode):
        edited = _into(text, node, lane, id)
    else:
        edited = text
    if not _added(values, edited, phase, lane, id):
        raise LabError(f"{PIPELINES} has no place for it: list {id} under {phase}.{lane} by hand", code="no_place")
    return edited


def _into(text: str, phase: yaml.MappingNode, lane: Lane, id: str) -> str:
    """`id` put into the table of a phase."""
    found = _child(phase, lane)
    if isinstance(found, yaml.SequenceNode):
        if found.flow_style:
            end = found.end_mark.index - 1
            return f"{text[:end]}{', ' if found.value else ''}{id}{text[end:]}"
        at = text.find("\n", found.value[-1].end_mark.index)
        at = len(text) if at < 0 else at
        return f"{text[:at]}\n{' ' * found.start_mark.column}- {id}{text[at:]}"
    if phase.flow_style:
        end = phase.end_mark.index - 1
        return f"{text[:end]}{', ' if phase.value else ''}{lane}: [{id}]{text[end:]}"
    first = phase.value[0][0].start_mark
    start, indent = first.index - first.column, " " * first.column
    return f"{text[:start]}{indent}{lane}:\n{indent}  - {id}\n{text[start:]}"


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _added(before: object, edited: str, phase: str, lane: str, id: str) -> bool:
    """Whether the edited text says what the old one said, and the entry."""
    if not isinstance(before, dict):
        return False
    lanes = dict(before.get(phase) or {})
    wanted = {**before, phase: {**lanes, lane: [*(lanes.get(lane) or []), id]}}
    try:
        return bool(yaml.safe_load(edited) == wanted)
    except yaml.YAMLError:
        return False
