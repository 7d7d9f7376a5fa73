"""Loading a surface: every rule of slot.yaml, pipelines.yaml, folders and entrypoints, all problems at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from slate_lab.errors import ConfigError
from slate_lab.slots.manifest import Manifest, read_manifest
from slate_lab.slots.surface import load_surface
from tests.slots.making import Core

VERSION = "schema_version: 1\n"


def refused(core: Core) -> list[str]:
    """The problems of a surface that must not load, as `code line message`."""
    with pytest.raises(ConfigError) as caught:
        core.load()
    return [f"{p.code} {Path(p.place.file).name}:{p.place.line} {p.message}" for p in caught.value.problems]


PIPELINES = {
    "Unknown phase: core load fails": ("outputs: {}", "unknown_phase pipelines.yaml:2", "did you mean output?"),
    "Unknown phase key: core load fails": ("input: {seriel: []}", "unknown_lane pipelines.yaml:2", "serial?"),
    "Unknown slot id in a pipeline: core load fails": (
        "input: {serial: [recal]}",
        "unknown_slot pipelines.yaml:2",
        "did you mean recall?",
    ),
    "Duplicate slot id inside one pipeline: core load fails": (
        "input:\n  serial: [recall]\n  parallel:\n    - recall",
        "listed_twice pipelines.yaml:5",
        "first in line 3",
    ),
    "Duplicate slot id inside one lane: core load fails": (
        "input: {serial: [recall, recall]}",
        "listed_twice pipelines.yaml:2",
        "first in line 2",
    ),
    "bootstrap.parallel: core load fails": (
        "bootstrap: {parallel: []}",
        "bootstrap_parallel pipelines.yaml:2",
        "serial",
    ),
    "A slot of another phase is no slot of this one": (
        "output: {serial: [recall]}",
        "unknown_slot pipelines.yaml:2",
        "is a slot of input",
    ),
    "A falsy list is no phase": ("input: []", "wrong_value pipelines.yaml:2", "found a list"),
    "0 is no phase": ("input: 0", "wrong_value pipelines.yaml:2", "found `0`"),
    "An empty text is no phase": ('input: ""', "wrong_value pipelines.yaml:2", "expected keys and values"),
    "null is no phase": ("input:", "wrong_value pipelines.yaml:2", "leave the phase out"),
    "A lane is a list": ("input: {serial: recall}", "wrong_value pipelines.yaml:2", "expected a list of slot ids"),
    "A lane lists texts": ("input: {serial: [1]}", "wrong_value pipelines.yaml:2", "expected text, found `1`"),
}


@pytest.mark.parametrize(("text", "where", "says"), PIPELINES.values(), ids=PIPELINES.keys())
def test_pipeline_rules(core: Core, text: str, where: str, says: str) -> None:
    """What breaks a rule of pipelines.yaml fails the load, at its line, and says what to do."""
    core.slot("input/recall")
    core.pipelines(VERSION + text)
    (said,) = refused(core)
    assert said.startswith(where)
    assert says in said


VERSIONS = {"true": "true", "1.0": "1.0", "the text 1": '"1"', "2": "2", "null": "null", "a list": "[1]", "01": "01"}


@pytest.mark.parametrize("value", VERSIONS.values(), ids=VERSIONS.keys())
def test_schema_version_must_be_1(core: Core, value: str) -> None:
    """schema_version is exactly the whole number 1."""
    core.pipelines(f"input: {{}}\nschema_version: {value}\n")
    (said,) = refused(core)
    assert said.startswith("schema_version pipelines.yaml:2 schema_version must be the whole number 1, found")


def test_schema_version_must_stand_there(core: Core) -> None:
    """Without schema_version a file is refused."""
    core.pipelines("input: {}\n")
    assert "schema_version is missing" in refused(core)[0]


def test_the_loader_requires_pipelines_yaml(core: Core) -> None:
    """A surface without pipelines.yaml is refused; no surface at all is an empty one."""
    assert refused(core)[0].startswith("no_pipelines pipelines.yaml:None")
    core.folder.rmdir()
    assert core.load().slots == ()


def test_phases_and_lanes_that_are_missing_are_empty(core: Core) -> None:
    """schema_version alone is a whole file."""
    core.pipelines(VERSION)
    assert core.load().slots == ()


def test_duplicate_slot_id_across_phase_directories(core: Core) -> None:
    """Duplicate slot id across phase directories: core load fails."""
    core.slot("input/twin")
    core.slot("output/twin")
    core.pipelines(VERSION)
    assert refused(core) == [
        "duplicate_slot slot.yaml:1 the slot id twin exists in input too: rename one of the two folders"
    ]


def test_the_slot_id_is_the_directory_name_and_order_is_the_files(core: Core) -> None:
    """Slots run in the order in which the pipeline lists them; a discovered but unlisted one is inactive."""
    for where in ("input/b", "input/a", "input/spare", "output/z", "bootstrap/first"):
        core.slot(where)
    core.pipelines(output=["z"], input=["b", "a"], bootstrap=["first"])
    surface = core.load()
    assert [(s.id, s.phase, s.lane) for s in surface.slots] == [
        ("first", "bootstrap", "serial"),
        ("b", "input", "serial"),
        ("a", "input", "serial"),
        ("z", "output", "serial"),
        ("spare", "input", None),
    ]
    assert [s.id for s in surface.lane("input", "serial")] == ["b", "a"]


def test_a_directory_without_slot_yaml_is_a_warning(core: Core) -> None:
    """A folder without a manifest is no slot and is told; caches and hidden folders are passed over."""
    core.write("input/draft/module.py", "")
    core.write("input/__pycache__/x.pyc", "")
    core.write("input/.idea/slot.yaml", "")
    core.pipelines(VERSION)
    (warning,) = core.load().warnings
    assert "input/draft has no slot.yaml and is no slot" in warning


def test_the_defaults_of_a_manifest(core: Core) -> None:
    """An empty slot.yaml has the defaults of the table."""
    core.slot("input/recall")
    manifest, wrong = read_manifest(core.folder / "input/recall/slot.yaml")
    assert not wrong
    assert manifest == Manifest(
        entrypoint="module:process",
        description="",
        input_schema={},
        capabilities=(),
        timeout_seconds=None,
        failure_policy="soft",
        default_placement="pre_current_user",
        history_policy="persist",
    )


def test_accepted_fields_are_exactly_these(core: Core) -> None:
    """The file of the reference loads as it stands, and every field arrives."""
    core.write("input/recall/module.py", "async def process(ctx): ...")
    core.write(
        "input/recall/slot.yaml",
        'entrypoint: module:process\ndescription: "Adds current-turn context."\ninput_schema: {a: [1, true, x]}\n'
        "capabilities: [state.session.read]\ntimeout_seconds: 2.5\nfailure_policy: hard\n"
        "default_placement: pre_current_user\nhistory_policy: transient\n",
    )
    core.pipelines(input=["recall"])
    (slot,) = core.load().slots
    assert slot.manifest.input_schema == {"a": [1, True, "x"]}
    assert (slot.manifest.timeout_seconds, slot.manifest.failure_policy) == (2.5, "hard")
    assert len(Manifest.__struct_fields__) == 8


MANIFEST = {
    "Unknown fields are rejected": ("colour: red", "unknown_field", "the fields are entrypoint"),
    "Unknown fields name the near one": ("descripton: x", "unknown_field", "did you mean description?"),
    "Legacy alias run is not accepted": ("run: module:process", "legacy_field", "the field is entrypoint"),
    "Legacy alias failure is not accepted": ("failure: hard", "legacy_field", "the field is failure_policy"),
    "entrypoint is text": ("entrypoint: [a]", "wrong_value", "expected text, found a list"),
    "description is text": ("description: true", "wrong_value", "expected text, found `true`: put it in quotes"),
    "a number is no description": ("description: 5", "wrong_value", "put it in quotes"),
    "input_schema is a table": ("input_schema: []", "wrong_value", "expected keys and values"),
    "capabilities is a list": ("capabilities: state.read", "wrong_value", "expected a list of texts"),
    "capabilities holds texts": ("capabilities: [1]", "wrong_value", "expected text"),
    "capabilities is not null": ("capabilities:", "wrong_value", "expected a list of texts"),
    "a wildcard stands at the end": ("capabilities: ['a*b']", "wrong_value", "only at its end"),
    "timeout_seconds is no truth value": ("timeout_seconds: true", "wrong_value", "null or a number above 0"),
    "timeout_seconds is no text": ('timeout_seconds: "5"', "wrong_value", "null or a number above 0"),
    "timeout_seconds is above 0": ("timeout_seconds: 0", "wrong_value", "null or a number above 0"),
    "timeout_seconds is finite": ("timeout_seconds: .inf", "wrong_value", "null or a number above 0"),
    "failure_policy is soft or hard": ("failure_policy: never", "wrong_value", "expected one of soft, hard"),
    "history_policy has three values": ("history_policy: hidden", "wrong_value", "persist, model_hidden, transient"),
    "default_placement is text": ("default_placement: 1", "wrong_value", "expected text"),
    "a field stands once": ("description: a\ndescription: b", "duplicate_key", "the key stands twice"),
}


@pytest.mark.parametrize(("text", "code", "says"), MANIFEST.values(), ids=MANIFEST.keys())
def test_manifest_rules(core: Core, text: str, code: str, says: str) -> None:
    """A field that breaks a rule fails the load at its line."""
    core.slot("input/recall")
    core.write("input/recall/slot.yaml", f"# a slot\n{text}\n")
    core.pipelines(VERSION)
    (said,) = refused(core)
    assert said.startswith(f"{code} slot.yaml:{3 if code == 'duplicate_key' else 2} ")
    assert says in said


ENTRYPOINTS = {
    "no colon": ("module", "write module:function"),
    "no function": ("module:", "write module:function"),
    "a file that is not there": ("other:process", 'other.py of `"other:process"` does not exist'),
    "a function that is not there": ("module:proces", "did you mean process?"),
    "a class": ("module:Thing", "is a class: the entrypoint must be a function"),
    "a function without ctx": ("module:nothing", "must take one argument"),
    "a function of two": ("module:two", "must take one argument"),
    "no module": ("mod-ule:process", "is no module"),
    "a path upwards": ("../x.py:process", "leads outside the project"),
    "an absolute path": ("/etc/x.py:process", "leads outside the project"),
    "a broken file": ("broken:process", "broken.py:2 is no Python"),
    "a link out": ("link:process", "leads outside the slot's folder"),
}


@pytest.mark.parametrize(("words", "says"), ENTRYPOINTS.values(), ids=ENTRYPOINTS.keys())
def test_entrypoints_are_checked_without_running_them(core: Core, tmp_path: Path, words: str, says: str) -> None:
    """The file exists and defines the function, by reading; nothing of it runs."""
    code = "raise SystemExit\ndef process(ctx): ...\nclass Thing: ...\ndef nothing(): ...\ndef two(a, b): ...\n"
    core.slot("input/recall", code, entrypoint=words)
    core.write("input/recall/broken.py", "x = 1\ndef process(ctx:\n")
    (tmp_path / "out.py").write_text("def process(ctx): ...")
    (core.folder / "input/recall/link.py").symlink_to(tmp_path / "out.py")
    core.pipelines(VERSION)
    (said,) = refused(core)
    assert said.startswith("entrypoint slot.yaml:1 ")
    assert says in said


@pytest.mark.parametrize(
    "words", ["module:process", "inner.deep:process", "agent/lib/shared.py:process", "named:process"]
)
def test_entrypoints_may_be_relative_to_slot_or_project(core: Core, words: str) -> None:
    """`module:function` relative to the slot directory, or a project-relative Python file plus function."""
    core.slot("input/recall", entrypoint=words)
    for name in ("input/recall/inner/deep.py", "lib/shared.py"):
        core.write(name, "async def process(ctx): ...\n")
    core.write("input/recall/named.py", "try:\n    from .inner.deep import process\nexcept ImportError:\n    pass\n")
    core.pipelines(input=["recall"])
    assert core.load().slots[0].entrypoint.function == "process"


def test_all_problems_come_at_once(core: Core) -> None:
    """Every file's problems are listed together, the pipeline's first, each with file and line."""
    core.slot("input/a", run="x", failure="y")
    core.slot("output/b", entrypoint="nowhere:process")
    core.pipelines("schema_version: 2\ninput: {serial: [c]}\nextra: {}\n")
    assert [line.split(" ")[:2] for line in refused(core)] == [
        ["schema_version", "pipelines.yaml:1"],
        ["unknown_slot", "pipelines.yaml:2"],
        ["unknown_phase", "pipelines.yaml:3"],
        ["legacy_field", "slot.yaml:1"],
        ["legacy_field", "slot.yaml:2"],
        ["entrypoint", "slot.yaml:1"],
    ]


@pytest.mark.parametrize("name", ["../other", "/etc", "", "a/../../b", "link"])
def test_the_surface_stays_inside_the_project(tmp_path: Path, name: str) -> None:
    """`surface_root` leads nowhere else: no `..`, no absolute path, no link out."""
    (tmp_path / "p").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "p" / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="leads outside the project"):
        load_surface(tmp_path / "p", name)


def test_a_slot_folder_that_links_out_is_refused(core: Core, tmp_path: Path) -> None:
    """A slot's folder inside the surface must lie there."""
    other = Core(tmp_path / "other")
    other.slot("input/x")
    (core.folder / "input").mkdir()
    (core.folder / "input" / "x").symlink_to(other.folder / "input" / "x")
    core.pipelines(VERSION)
    assert refused(core)[0].startswith("slot_outside x:None")


def test_another_surface_root(tmp_path: Path) -> None:
    """The folder's name is the configuration's."""
    core = Core(tmp_path, "core/slots")
    core.base()
    assert [s.id for s in core.load().slots] == ["base_input", "base_output"]


def test_what_is_asked_for_and_not_allowed_is_told(core: Core) -> None:
    """A manifest grants only what the project allows; the rest is a warning, not an error."""
    core.slot("input/recall", capabilities=["state.session.read", "tool.call:bash", "secret:KEY"])
    core.pipelines(VERSION)
    surface = core.load(allowed=("state.*", "secret:*"))
    assert surface.slots[0].grants.withheld == ("tool.call:bash", "secret:KEY")
    assert "tool.call:bash, secret:KEY is asked for but not allowed" in surface.warnings[0]
