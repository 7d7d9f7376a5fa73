"""From files to a configuration: merge, places, warnings, and all problems at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slate_lab.config import LabConfig, json_schema, load_config, nearest_place
from slate_lab.config.load import Loaded
from slate_lab.errors import ConfigError
from tests.config.test_values import problems


def load(tmp_path: Path, project: str = "", home: str | None = None, **overrides: Any) -> Loaded:
    """The project's file, with the user's own and overrides."""
    (tmp_path / "slate.yaml").write_text(project)
    (tmp_path / "home").mkdir(exist_ok=True)
    if home is not None:
        (tmp_path / "home" / "slate.yaml").write_text(home)
    return load_config(tmp_path, home=tmp_path / "home", overrides=overrides)


def test_no_file_is_the_defaults(tmp_path: Path) -> None:
    """A project without any file has the defaults, no warning, and no origins."""
    loaded = load_config(tmp_path, home=tmp_path / "nowhere")
    assert loaded.config == LabConfig()
    assert (loaded.warnings, loaded.files, loaded.origins) == ((), (), {})
    assert loaded.config.max_concurrent == 8
    assert loaded.config.compressor.max_output_tokens == 4096


def test_no_folder_is_an_error(tmp_path: Path) -> None:
    """A project that is not there is refused by name."""
    with pytest.raises(ConfigError, match="gone: this folder does not exist"):
        load_config(tmp_path / "gone", home=tmp_path)


def test_tables_merge_and_the_rest_replaces(tmp_path: Path) -> None:
    """Home, project and overrides lie over each other: tables key by key, lists, scalars and null as a whole."""
    loaded = load(
        tmp_path,
        home="limits: {day: {usd: 1}, thread: {turns: 5, seconds: 9}}\nmodels: {exclude: [gpt-sol, gpt-oss]}\n",
        project="limits:\n  thread: {turns: 7, seconds: null}\nmodels: {exclude: [local]}\n",
        limits={"day": {"usd": 2}},
    )
    limits = loaded.config.limits
    assert (limits.thread.turns, limits.thread.seconds, limits.day.usd) == (7, None, 2)
    assert loaded.config.models.exclude == ["local"]
    origins = {path: origin.replace(f"{tmp_path}/", "") for path, origin in loaded.origins.items()}
    assert origins["limits.thread.turns"] == "slate.yaml:2"
    assert origins["limits.day.usd"] == "override"
    assert origins["models.exclude[0]"] == "slate.yaml:3"
    assert "models.exclude[1]" not in origins
    assert [file.parent.name for file in loaded.files] == ["home", tmp_path.name]


def test_validation_runs_after_the_merge(tmp_path: Path) -> None:
    """What the home file leaves wrong and the project mends is no problem."""
    loaded = load(
        tmp_path, home="durability: sometimes\nmaxConcurrent: many\n", project="durability: full\nmaxConcurrent: 2\n"
    )
    assert (loaded.config.durability, loaded.config.max_concurrent, loaded.warnings) == ("full", 2, ())


def test_all_problems_come_at_once_in_order(tmp_path: Path) -> None:
    """Every problem of every file and override is listed, each with its file, line and key path."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "slate.yaml").write_text("queue:\n  depth: -1\n")
    found = problems(
        tmp_path,
        "defaultModle: local\nlimits:\n  thread:\n    turns: 1e3\n    turn: 3\ndurability: often\nlimits: 5\n",
        overrides={"workspace": 5},
    )
    assert found == [
        "home/slate.yaml:2, queue.depth: must be at least 0",
        "slate.yaml:1, defaultModle: unknown key; did you mean defaultModel?",
        "slate.yaml:4, limits.thread.turns: expected a whole number, found `1e3` (digits only, like 1000)",
        "slate.yaml:5, limits.thread.turn: unknown key; did you mean turns?",
        "slate.yaml:6, durability: expected one of normal, full, found `often`",
        "slate.yaml:7, limits: the key stands twice; first in line 2",
        "override, workspace: expected text, found `5`",
    ]


def test_one_unreadable_file_blocks_even_if_the_other_is_fine(tmp_path: Path) -> None:
    """A home file that cannot be read is an error, however good the project's is."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, home="queue: [\n", project="queue: {depth: 5}\n")
    assert [Path(p.place.file).parent.name for p in caught.value.problems] == ["home"]


def test_two_files_say_which_to_keep(tmp_path: Path) -> None:
    """slate.yaml beside slate.json is an error that says what to remove."""
    (tmp_path / "slate.json").write_text("{}")
    assert "keep slate.yaml and remove slate.json" in problems(tmp_path, "queue: {depth: 5}\n")[0]


def test_a_misnamed_file_is_not_silently_ignored(tmp_path: Path) -> None:
    """slate.yml is not read, and that is said."""
    (tmp_path / "slate.yml").write_text("")
    with pytest.raises(ConfigError, match="rename it to slate"):
        load_config(tmp_path, home=tmp_path / "home")


def test_a_directory_of_that_name_is_an_error(tmp_path: Path) -> None:
    """slate.yaml that is no file is an error and not a traceback."""
    (tmp_path / "slate.yaml").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path, home=tmp_path / "home")


@pytest.mark.parametrize("text", ["1", "8", "9007199254740991"])
def test_max_concurrent_takes_safe_whole_numbers(tmp_path: Path, text: str) -> None:
    """`maxConcurrent`: a whole number from 1 to 2^53 - 1 is taken as it is."""
    loaded = load(tmp_path, f"maxConcurrent: {text}\n")
    assert (loaded.config.max_concurrent, loaded.warnings) == (int(text), ())


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "-1",
        "9007199254740992",
        "1.0",
        "1e1",
        '"4"',
        "true",
        "null",
        "[4]",
        "{a: 4}",
        "010",
        "4_000",
        ".inf",
        "x" * 99,
    ],
)
def test_max_concurrent_warns_once_and_is_8(tmp_path: Path, text: str) -> None:
    """`maxConcurrent`: anything else, without conversion or rounding, gives exactly one warning and 8."""
    loaded = load(tmp_path, f"# first\nmaxConcurrent: {text}\n")
    assert loaded.config.max_concurrent == 8
    assert len(loaded.warnings) == 1
    assert loaded.warnings[0].startswith(f"{tmp_path}/slate.yaml:2, maxConcurrent: expected a whole number from 1")
    assert loaded.warnings[0].endswith(": using 8")


@pytest.mark.parametrize(
    "value",
    [True, 4.0, "4", None, [], 2**53, 10**5000],
    ids=["true", "float", "text", "none", "list", "too-large", "vast"],
)
def test_max_concurrent_of_an_override(tmp_path: Path, value: Any) -> None:
    """`maxConcurrent`: a Python value follows the same rule."""
    loaded = load(tmp_path, maxConcurrent=value)
    assert (loaded.config.max_concurrent, len(loaded.warnings)) == (8, 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("providers: {openai: {baseURL: x}}", "did you mean baseUrl?"),
        ("providers: {openai: {models: {m: {price: {inputs: 1, output: 2}}}}}", "did you mean input?"),
        ("models: {add: [{modle: x}]}", "did you mean model?"),
        ("models: {replace: {local: {effrt: low}}}", "did you mean effort?"),
        ("limits: {hour: {usd: 1}}", "known here: thread, session, project, day"),
        ("threadTypes: {a: {limits: {tool_calls: 1}}}", "did you mean toolCalls?"),
        ("max_concurrent: 5", "did you mean maxConcurrent?"),
    ],
)
def test_an_unknown_key_names_the_nearest(tmp_path: Path, text: str, says: str) -> None:
    """An unknown key is an error at every depth, with the nearest key that exists there."""
    assert any(says in found for found in problems(tmp_path, text + "\n"))


def test_a_frozen_configuration(tmp_path: Path) -> None:
    """A loaded configuration cannot be changed."""
    config = load(tmp_path).config
    with pytest.raises(ValueError, match="frozen"):
        config.workspace = "/"


def test_places_of_what_is_inside(tmp_path: Path) -> None:
    """A path that stands in no file is told at the nearest table around it."""
    loaded = load(tmp_path, "\nmodels:\n  exclude: [local]\n")
    assert nearest_place(loaded.places, "models.exclude[0]").line == 3
    assert nearest_place(loaded.places, "models.add[3].model").line == 2
    assert nearest_place(loaded.places, "queue.depth").line is None


def test_the_schema_describes_the_file() -> None:
    """The JSON Schema spells the keys as the file does and refuses others."""
    schema = json_schema()
    assert {"defaultModel", "maxConcurrent", "threadTypes", "providers"} <= schema["properties"].keys()
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["ProviderSpec"]["properties"]["timeoutSeconds"]["type"] == "number"
