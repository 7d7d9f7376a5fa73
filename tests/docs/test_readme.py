"""The README cannot go stale: its code runs, its tables are the program's own, names stand where a reader looks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

import slate_lab as sl
from slate_lab import errors
from slate_lab.config import LabConfig, json_schema
from slate_lab.records import SECTIONS
from slate_lab.verbs.table import COMMANDS, commands

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
STARTER = (ROOT / "data" / "starter" / "slate.yaml").read_text()


def blocks(language: str) -> list[str]:
    """Fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("code", blocks("python"))
def test_python_blocks_run(code, tmp_path, monkeypatch, capsys):
    """Each block runs as it stands, in an empty folder, without network or key."""
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert "## Key Findings" in capsys.readouterr().out


@pytest.mark.parametrize("text", blocks("yaml"))
def test_yaml_blocks_load(text, tmp_path):
    """Each block is a valid slate.yaml; the default model that it names can be granted."""
    (tmp_path / "slate.yaml").write_text(text)
    with sl.Lab.open(tmp_path, store=":memory:", env={}, trust=True) as lab:
        assert lab.status()["model"] == yaml.safe_load(text).get("defaultModel", "local")


@pytest.mark.parametrize("code", blocks("py"))
def test_units_load(code, tmp_path):
    """Each module of a unit is one that workers get."""
    (tmp_path / "units").mkdir()
    (tmp_path / "units" / "search.py").write_text(code)
    config = {"workerExtensions": ["search"]}
    with sl.Lab.open(tmp_path, store=":memory:", env={}, config=config, trust=True) as lab:
        assert [(u.name, list(u.tools)) for u in lab.units.resolution.selected] == [("search", ["look_up"])]


def commands_table() -> str:
    """The table of commands as the README holds it."""
    rows = ["| command | what it does |", "|---|---|"]
    for command in COMMANDS:
        only = "" if len(command.at) == 2 else f" ({'notebook' if command.at == ('magic',) else 'shell'} only)"
        rows.append(f"| `{command.name}` | {command.help}{only} |")
    return "\n".join(rows)


def test_the_table_of_commands_is_the_programs_own():
    """Names and help lines are those that `%slate help` prints."""
    held = README.split("<!-- table: commands -->\n")[1].split("\n<!-- end -->")[0]
    assert held == commands_table()


def test_every_command_of_the_notebook_examples_exists():
    """`%slate` lines in the README name real commands and options."""
    for name in re.findall(r"^%%?slate (\w+)", README, re.MULTILINE):
        assert name in commands("magic")
    options = {o.name for c in COMMANDS for o in c.options} | {"--project", "--json", "--help"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README)) <= options


def test_every_error_is_named():
    """The small tree of errors stands in the README."""
    for name in errors.__all__:
        if isinstance(kind := getattr(errors, name), type) and issubclass(kind, errors.LabError):
            assert name == "LabError" or f"`{name}`" in README


def keys(schema: dict[str, Any], definitions: dict[str, Any]) -> set[str]:
    """All keys of a JSON Schema, below references too."""
    found: set[str] = set()
    for part in [schema, *definitions.values()]:
        found |= set(part.get("properties", {}))
    return found


def test_every_key_of_the_configuration_stands_in_the_starter():
    """A reader finds each key, commented, in the file that `slate-lab init` writes."""
    schema = json_schema()
    missing = {k for k in keys(schema, schema.get("$defs", {})) if not re.search(rf"\b{k}\b", STARTER)}
    assert missing <= {"headers", "parallelTools", "efforts", "price", "input", "output", "cacheRead", "cacheWrite5m",
                       "cacheWrite1h"} - set(re.findall(r"\w+", STARTER))  # fmt: skip
    assert LabConfig().max_concurrent == 8


def test_the_six_sections_and_the_thread_types_are_named():
    """Exact words, in order."""
    assert ", ".join(SECTIONS) in README
    for name in ("general", "researcher", "reviewer", "adversarial", "implementer", "query"):
        assert f"`{name}`" in README


def test_make_words_of_the_readme_exist():
    """Every `make word` in the README is a word of the Makefile."""
    words = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`?make ([a-z]+)", README)) <= words


def test_the_door_is_sorted_and_every_name_opens():
    """`import slate_lab` offers what `__all__` says."""
    assert sl.__all__ == sorted(sl.__all__)
    for name in sl.__all__:
        assert getattr(sl, name) is not None
    assert dir(sl) == sl.__all__


def test_import_is_light_and_silent():
    """No pandas, IPython, network library or output; heavy rooms load when they are used."""
    heavy = "pandas IPython ipywidgets httpx aiohttp pydantic tiktoken nbformat socket"
    code = f"import sys, slate_lab; print([m for m in {heavy.split()!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_kinds_of_model_errors_are_a_closed_set():
    """A new kind must be thought about: which of them may move to another route?"""
    assert set(get_args(errors.ModelErrorKind)) == {
        "retry-exhausted", "auth", "billing", "context-overflow", "bad-request", "bad-reply", "unreachable", "timeout",
        "unavailable", "replay-miss", "cancelled",
    }  # fmt: skip


if __name__ == "__main__":  # python -m tests.docs.test_readme writes the table anew
    head, rest = README.split("<!-- table: commands -->\n")
    tail = rest.split("<!-- end -->", 1)[1]
    (ROOT / "README.md").write_text(f"{head}<!-- table: commands -->\n{commands_table()}\n<!-- end -->{tail}")
