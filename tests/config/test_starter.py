"""The starter project: what `slate-lab init` writes loads, says the defaults, and never overwrites."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from slate_lab.config import LabConfig, load_config, starter_files, write_starter
from slate_lab.errors import ConfigError
from slate_lab.routing.policy import Policy

REPO = Path(__file__).parents[2]
KEY = re.compile(r"^( *)# ( *(?:- )?[A-Za-z][\w.-]*:(?: .*)?)$", re.MULTILINE)


def test_the_starter_loads_and_runs_here(tmp_path: Path) -> None:
    """A fresh starter project is valid and, where no key is set, answers on this machine."""
    written = write_starter(tmp_path / "new")
    assert {"database.txt", "gateway.txt", "queue-worker.txt", "slate.yaml", "pipelines.yaml"} <= {
        p.name for p in written
    }
    config = load_config(tmp_path / "new", home=tmp_path).config
    assert Policy.resolve(config).default({}) == "local"
    assert config.providers["local"].weights == "qwen2.5-coder-0.5b"


def test_every_commented_line_is_valid(tmp_path: Path) -> None:
    """With every commented key uncommented the starter still loads: no example in it is wrong."""
    write_starter(tmp_path)
    file = tmp_path / "slate.yaml"
    text, count = KEY.subn(r"\1\2", file.read_text())
    assert count > 30
    file.write_text(text)
    config = load_config(tmp_path, home=tmp_path / "home").config
    assert config.limits.thread.turns == 20
    assert config.providers["my-server"].models["my-model"].window == 32768


def test_the_commented_values_are_the_defaults(tmp_path: Path) -> None:
    """What the starter says is the default is the default."""
    write_starter(tmp_path)
    values = yaml.safe_load(KEY.sub(r"\1\2", (tmp_path / "slate.yaml").read_text()))
    default = LabConfig()
    assert values["maxConcurrent"] == default.max_concurrent
    assert values["durability"] == default.durability
    assert values["workspace"] == default.workspace
    assert values["compressor"] == default.compressor.model_dump(by_alias=True)
    openai = LabConfig.model_validate({"providers": {"openai": {}}}).providers["openai"].model_dump(by_alias=True)
    for key in ("timeoutSeconds", "maxRetries", "maxWaitSeconds"):
        assert values["providers"]["openai"][key] == openai[key]
    for key in ("contextTokens", "idleSeconds"):
        assert values["providers"]["local"][key] == openai[key]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """Files that exist are all named, nothing is written; `force` replaces them and touches nothing else."""
    (tmp_path / "slate.yaml").write_text("queue: {depth: 1}\n")
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"slate\.yaml: exists already"):
        write_starter(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.txt", "slate.yaml"]
    write_starter(tmp_path, force=True)
    assert "queue: {depth: 1}" not in (tmp_path / "slate.yaml").read_text()
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """With `force` a link in the way is replaced; what it points to stays as it is."""
    outside = tmp_path / "outside.yaml"
    outside.write_text("keep")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "slate.yaml").symlink_to(outside)
    with pytest.raises(ConfigError):
        write_starter(tmp_path / "new")
    write_starter(tmp_path / "new", force=True)
    assert outside.read_text() == "keep"


def test_a_json_project_is_left_alone(tmp_path: Path) -> None:
    """Where slate.json stands no slate.yaml is put beside it, even with `force`."""
    (tmp_path / "slate.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"slate\.json"):
        write_starter(tmp_path, force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["slate.json"]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """A file in the place of the folder is an error in one line."""
    (tmp_path / "new").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        write_starter(tmp_path / "new")


def test_the_installed_package_finds_it(tmp_path: Path) -> None:
    """In the layout of a wheel, where the data lies inside the package, the starter is found there."""
    shutil.copytree(REPO / "slate_lab", tmp_path / "site" / "slate_lab", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(REPO / "data" / "starter", tmp_path / "site" / "slate_lab" / "data" / "starter")
    code = "import sys; from slate_lab.config import *; import slate_lab; from pathlib import Path; "
    code += "print(slate_lab.__file__); print(len(write_starter(Path(sys.argv[1]))))"
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "new")],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    place, count = ran.stdout.split()
    assert place.startswith(str(tmp_path))
    assert count == str(len(starter_files()))


def test_the_cause_needs_all_three_notes() -> None:
    """The incident can be understood only together: each link of its chain stands in one note alone."""
    notes = {p.stem: p.read_text() for p in (REPO / "data" / "starter" / "field-notes").iterdir()}
    links = {
        "gateway": "attempt timeout 10 s -> 3 s",
        "queue-worker": "three different keys",
        "database": "index invoices_key_idx dropped",
    }
    for name, link in links.items():
        assert [note for note, text in notes.items() if link in text] == [name]
    assert all(20 <= len(text.splitlines()) <= 30 for text in notes.values())
    assert all(len(line) <= 120 for text in notes.values() for line in text.splitlines())
