"""Trust: what a project brings counts only once the person said so, and a change asks again."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import slate_lab as sl
from slate_lab.config import HeldBack, Trust, load_config, write_starter
from slate_lab.config.schema import LabConfig
from slate_lab.config.trust import OPEN_KEYS
from slate_lab.errors import ConfigError, LabError

FOREIGN = """\
defaultModel: local
maxConcurrent: 3
providers:
  openai: {baseUrl: "https://elsewhere.example/v1"}
  mine: {protocol: chat, baseUrl: "https://elsewhere.example/v1"}
threadTypes:
  triage: {charter: Say yes.}
workspace: /
replay: {mode: replay, file: answers.jsonl}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The person's configuration folder."""
    return tmp_path / "home"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A project somebody else wrote: addresses, charters, a workspace, recorded answers and a unit."""
    root = tmp_path / "foreign"
    (root / "units").mkdir(parents=True)
    (root / "slate.yaml").write_text(FOREIGN)
    (root / "units" / "search.py").write_text("x = 1\n")
    return root


def test_a_foreign_project_is_held_back(foreign: Path, home: Path) -> None:
    """Addresses, charters, models, workspace, recordings and code that are not trusted do not count; the rest does."""
    trust = Trust.of(foreign, home)
    config = load_config(foreign, home=home, trust=trust).config
    assert (trust.trusted, trust.reason) == (False, "you have not trusted this project")
    assert trust.held == (
        "slate.yaml: providers", "slate.yaml: replay", "slate.yaml: threadTypes", "slate.yaml: workspace",
        "units/search.py",
    )  # fmt: skip
    assert config == LabConfig.model_validate({"defaultModel": "local", "maxConcurrent": 3})
    assert not trust.allows("units")
    assert not trust.allows(foreign / "units" / "search.py")
    with pytest.raises(LabError, match="held back"):
        trust.read(foreign / "units" / "search.py")


def test_home_settings_apply_and_win_in_an_untrusted_project(foreign: Path, home: Path) -> None:
    """A project that is not trusted cannot raise the person's own caps or take their providers over."""
    home.mkdir()
    own = 'providers: {own: {protocol: chat, baseUrl: "http://127.0.0.1:1/v1"}}\nlimits: {day: {usd: 5}}\n'
    (home / "slate.yaml").write_text(own)
    (foreign / "slate.yaml").write_text(FOREIGN + "limits: {day: {usd: 5000}, thread: {turns: 9}}\n")
    config = load_config(foreign, home=home, trust=Trust.of(foreign, home)).config
    assert list(config.providers) == ["own"]
    assert (config.limits.day.usd, config.limits.thread.turns) == (5, 9)
    Trust.of(foreign, home).record()
    loaded = load_config(foreign, home=home, trust=Trust.of(foreign, home))
    assert loaded.config.limits.day.usd == 5000
    assert [f.parent.name for f in loaded.files] == ["home", "foreign"]


def test_a_change_does_not_rid_a_project_of_its_own_bounds(foreign: Path, home: Path) -> None:
    """Approvals, a demanded sandbox and shorter lists of tools count while the rest is held back; no right does."""
    (foreign / "slate.yaml").write_text("""\
tools: {approve: [bash], sandbox: require, readable: [/etc], functions: ["a:b"]}
threadTypes:
  general: {tools: [read, bash, search], approve: [read], charter: Say yes.}
  researcher: {tools: [read, bash]}
  query: {tools: [bash], limits: {turns: 2}}
  own: {tools: [bash]}
""")
    Trust.of(foreign, home).record()
    (foreign / "units" / "more.py").write_text("x = 2\n")
    trust = Trust.of(foreign, home)
    assert not trust.trusted
    config = load_config(foreign, home=home, trust=trust).config
    assert config == LabConfig.model_validate(
        {
            "tools": {"approve": ["bash"], "sandbox": "require"},
            "threadTypes": {
                "general": {"tools": ["read", "bash"], "approve": ["read"]},
                "researcher": {"tools": ["read"]},
                "query": {"limits": {"turns": 2}},
            },
        }
    )


def test_trusting_lets_it_count(foreign: Path, home: Path) -> None:
    """After `record` everything counts, and files are given out exactly as they were trusted."""
    trust = Trust.of(foreign, home).record()
    assert trust.trusted
    assert (trust.held, trust.warning, trust.changes) == ((), "", ())
    again = Trust.of(foreign, home)
    assert load_config(foreign, home=home, trust=again).config == load_config(foreign, home=home).config
    assert again.read(foreign / "units" / "search.py") == b"x = 1\n"
    assert again.allows("units")
    assert again.allows(foreign / "units" / "search.py")
    assert not Trust.of(foreign, home).forget().trusted


def edit(text: str, by: str) -> Callable[[Path], None]:
    """A change of slate.yaml."""
    return lambda root: (root / "slate.yaml").write_text(FOREIGN.replace(text, by)) and None


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "an address": (edit("mine: {protocol: chat, baseUrl: \"https://else", "mine: {protocol: chat, baseUrl: \"https://o"),
                   "changed slate.yaml: providers"),
    "a charter": (edit("Say yes", "Say no"), "changed slate.yaml: threadTypes"),
    "a key that was not there": (lambda r: (r / "slate.yaml").write_text(FOREIGN + "compressor: {mode: fixed}\n"),
                                 "added slate.yaml: compressor"),
    "a unit": (lambda r: (r / "units/search.py").write_text("x = 2\n"), "changed units/search.py"),
    "a unit that was not there": (lambda r: (r / "units/b.py").write_text(""), "added units/b.py"),
    "any file beside a unit": (lambda r: (r / "units/data.txt").write_text(""), "added units/data.txt"),
    "a unit that is gone": (lambda r: (r / "units/search.py").unlink(), "removed units/search.py"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "told"), CHANGES.values(), ids=CHANGES)
def test_a_change_asks_again(change: Callable[[Path], object], told: str, foreign: Path, home: Path) -> None:
    """What changed is named, all is held back again, and trusting it once more settles it."""
    Trust.of(foreign, home).record()
    change(foreign)
    trust = Trust.of(foreign, home)
    assert trust.changes == (told,)
    assert not trust.trusted
    assert trust.reason == f"it changed since you trusted it: {told}"
    assert trust.warning.startswith(f"held back from {foreign.name}, because {trust.reason}; in all ")
    assert Trust.of(foreign, home).record().trusted
    assert Trust.of(foreign, home).trusted


def test_a_change_that_needs_no_trust_does_not_ask(foreign: Path, home: Path) -> None:
    """Comments, permits and notes may change; a byte-code cache is never read, so it does not count either."""
    Trust.of(foreign, home).record()
    (foreign / "slate.yaml").write_text("# a comment\n" + FOREIGN.replace("maxConcurrent: 3", "maxConcurrent: 4"))
    (foreign / "notes.md").write_text("anything")
    (foreign / "units" / "__pycache__").mkdir()
    (foreign / "units" / "__pycache__" / "search.cpython-311.pyc").write_bytes(b"x")
    assert Trust.of(foreign, home).trusted


def test_a_moved_or_copied_project_asks_again(foreign: Path, home: Path) -> None:
    """Trust belongs to a path; another path to the same folder is the same project."""
    Trust.of(foreign, home).record()
    link = foreign.with_name("link")
    link.symlink_to(foreign)
    assert Trust.of(link, home).trusted
    foreign.rename(foreign.with_name("moved"))
    assert not Trust.of(foreign.with_name("moved"), home).trusted


def test_a_file_changed_while_the_lab_is_open_does_not_run(foreign: Path, home: Path) -> None:
    """A loader gets the bytes that were trusted or none; keys read after the trust was taken are compared too."""
    trust = Trust.of(foreign, home).record()
    (foreign / "units" / "search.py").write_text("import os\n")
    with pytest.raises(LabError, match=r"units/search\.py was changed while the lab was open"):
        trust.read(foreign / "units" / "search.py")
    assert not trust.allows(foreign / "units" / "search.py")
    (foreign / "slate.yaml").write_text(FOREIGN.replace("mine:", "other:"))
    assert "providers" not in load_config(foreign, home=home, trust=trust).places


def test_files_that_the_configuration_names_belong_to_it(foreign: Path, home: Path) -> None:
    """A text that names a file or folder of the project (a surface, a server's script) puts its bytes under trust."""
    (foreign / "slate.yaml").write_text("runtime: {surface_root: flow}\n")
    (foreign / "flow" / "input").mkdir(parents=True)
    (foreign / "flow" / "input" / "slot.yaml").write_text("id: a\n")
    Trust.of(foreign, home).record()
    (foreign / "flow" / "input" / "slot.yaml").write_text("id: b\n")
    assert Trust.of(foreign, home).changes == ("changed flow/input/slot.yaml",)


def _link_out(root: Path) -> None:
    (root / "units" / "more").symlink_to(root.parent)


def _pipe(root: Path) -> None:
    os.mkfifo(root / "units" / "pipe.py")


@pytest.mark.parametrize(("plant", "told"), [(_link_out, "link to a folder"), (_pipe, "no regular file")])
def test_what_cannot_be_hashed_cannot_be_trusted(
    plant: Callable[[Path], None], told: str, foreign: Path, home: Path
) -> None:
    """A link to a folder or a pipe among the code is refused by name, and nothing is recorded."""
    plant(foreign)
    with pytest.raises(ConfigError, match=told):
        Trust.of(foreign, home).record()
    assert not Trust.of(foreign, home).trusted
    assert told in Trust.of(foreign, home).warning


def test_the_record_is_the_persons_own(foreign: Path, home: Path) -> None:
    """Mode 0600, and a record that others may write, or that is damaged, trusts nothing and says so."""
    Trust.of(foreign, home).record()
    file = home / "trust.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o666)
    assert "others may write it" in Trust.of(foreign, home).reason
    file.chmod(0o600)
    for text in ("{", "[]", '{"version": 2, "projects": {}}', '{"version": 1, "projects": {"/": {"files": {"a": 1}}}}'):
        file.write_text(text)
        assert "cannot be used" in Trust.of(foreign, home).reason
        with pytest.raises(ConfigError, match="cannot be changed"):
            Trust.of(foreign, home).record()
        assert file.read_text() == text


def test_programs_that_trust_at_once_lose_nothing(tmp_path: Path, home: Path) -> None:
    """Four processes that record four projects leave four records."""
    roots = [tmp_path / f"p{n}" for n in range(4)]
    for root in roots:
        root.mkdir()
        (root / "slate.yaml").write_text("workspace: .\n")
    code = "import sys, pathlib, slate_lab.config as c; c.Trust.of(*map(pathlib.Path, sys.argv[1:])).record()"
    runs = [subprocess.Popen([sys.executable, "-c", code, str(root), str(home)]) for root in roots]
    assert [run.wait() for run in runs] == [0] * 4
    assert set(json.loads((home / "trust.json").read_text())["projects"]) == {str(root) for root in roots}


def test_a_starter_needs_no_trust_but_what_was_there_does(tmp_path: Path, home: Path) -> None:
    """What `init` writes is our own text; code that lay in the folder before is still held back."""
    write_starter(tmp_path / "new")
    assert Trust.of(tmp_path / "new", home).trusted
    (tmp_path / "new" / "units").mkdir()
    (tmp_path / "new" / "units" / "a.py").write_text("")
    written = write_starter(tmp_path / "new", force=True)
    assert not Trust.of(tmp_path / "new", home).record(only=written).trusted


def test_every_key_is_decided() -> None:
    """Keys are held back unless they are named as open, and those that are named exist."""
    keys = {field.alias for field in LabConfig.model_fields.values()}
    assert keys > OPEN_KEYS
    assert {"providers", "models", "threadTypes", "replay", "workspace", "compressor"} <= keys - OPEN_KEYS


def opened(root: Path, *, warned: str, **options: Any) -> sl.Lab:
    """A lab of the project, whose opening gave exactly this warning."""
    with pytest.warns(HeldBack, match=warned):
        return sl.Lab.open(root, store=":memory:", env={}, **options)


def test_a_lab_warns_and_goes_on(foreign: Path) -> None:
    """Opening an untrusted project is a warning with what is held back; status says it too."""
    with opened(foreign, warned=r"have not trusted.*slate\.yaml: providers.*units/search\.py; read it") as lab:
        assert lab.config.providers["openai"].base_url == "https://api.openai.com/v1"
        assert "mine" not in lab.config.providers
        assert lab.status()["held_back"] == list(lab.trust.held)
        assert (lab.status()["trusted"], lab.status()["model"]) == (False, "local")
        assert "slate-lab trust" in lab.warnings[-1]


def test_a_lab_whose_default_model_is_held_back_does_not_open(foreign: Path) -> None:
    """The refusal names the held-back parts and how to let them count."""
    (foreign / "slate.yaml").write_text(FOREIGN.replace("defaultModel: local", "defaultModel: theirs"))
    with pytest.raises(ConfigError, match=r"theirs.*held back.*slate-lab trust"):
        sl.Lab.open(foreign, store=":memory:", env={})


def test_vouching_in_python(foreign: Path) -> None:
    """`trust=True` lets all count for this opening and records nothing; `trust=False` holds back what was trusted."""
    (foreign / "slate.yaml").write_text("threadTypes: {triage: {charter: Say yes.}}\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error", HeldBack)
        with sl.Lab.open(foreign, store=":memory:", env={}, trust=True) as lab:
            assert "triage" in lab.config.thread_types
    assert not Trust.of(foreign).trusted
    Trust.of(foreign).record()
    with opened(foreign, warned="trust=False", trust=False) as lab:
        assert lab.config.thread_types == {}


def test_what_is_passed_in_code_counts(foreign: Path) -> None:
    """`config=` is the person's own, whatever the project is."""
    config = {"threadTypes": {"mine": {"charter": "Look twice."}}}
    with opened(foreign, warned="held back", config=config) as lab:
        assert list(lab.config.thread_types) == ["mine"]
