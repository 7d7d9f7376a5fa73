"""The reader of slate.yaml and slate.json: strict, bounded, and never anything but a ConfigError."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slate_lab.config import load_config
from slate_lab.config.json_text import read_json
from slate_lab.config.yaml_text import read_yaml
from slate_lab.errors import ConfigError
from tests.config.test_values import problems

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(8)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("queue:\n  depth: 5\n  depth: 9\n", "slate.yaml:3, queue.depth: the key stands twice; first in line 2"),
        ("a: 1\n---\nb: 2\n", "slate.yaml:2: a second document"),
        ("queue: !!python/object/apply:os.system [ls]\n", "slate.yaml:1, queue: tags"),
        ("queue: !mine {depth: 5}\n", "slate.yaml:1, queue: tags"),
        ("workspace: !!str 5\n", "slate.yaml:1, workspace: tags"),
        ("queue: &q {depth: 5}\nlimits: {<<: *q}\n", "slate.yaml:2, limits: merge keys"),
        ("? [a, b]\n: c\n", "slate.yaml:1: a key must be text, not a list"),
        ("a: &x b\n*x : c\n", "slate.yaml:2: a key must be text, not an alias"),
        ("~: a\n", "slate.yaml:1: a key is missing before the colon"),
        ("a: *x\n", "slate.yaml:1: *x has no anchor &x before it"),
        ("a: &x [*x]\n", "slate.yaml:1: *x stands inside its own anchor"),
        ("- a\n", "slate.yaml:1: expected keys and values"),
        ("just text\n", "slate.yaml:1: expected keys and values"),
        ("a: [\n", "slate.yaml:2: not YAML: "),
        ("a:\n\tb: 1\n", "slate.yaml:2: not YAML: "),
        ("a: '\\ud800'\nb: \"\\ud800\"\n", "slate.yaml:2, b: half of a character pair"),
        ("a: \"\\UFFFFFFFF\"\n", "slate.yaml: not YAML: "),
        ("a: \x00\n", "slate.yaml: not YAML: "),
        ("a: " + "[" * 100 + "]" * 100, "slate.yaml:1: nested more than 32 deep"),
        ("a: " + "[" * 5_000, "slate.yaml:1: nested more than 32 deep"),
        (BOMB, "values (aliases count each time)"),
        ("a: [" + "x," * 6_000 + "]", "more than 5000 values"),
        ("a: '" + "x" * 300_000 + "'", "slate.yaml: larger than 256 KiB"),
    ],
)  # fmt: skip
def test_what_yaml_allows_and_we_refuse(tmp_path: Path, text: str, says: str) -> None:
    """Duplicate keys, tags, merge keys, second documents, alias bombs and deep nesting are errors with their line."""
    assert any(says in found for found in problems(tmp_path, text))


def test_bounded_aliases_are_allowed(tmp_path: Path) -> None:
    """An anchor may be used again; the value is the same as if it were written out."""
    (tmp_path / "slate.yaml").write_text("threadTypes: {a: &t {charter: hello, limits: {turns: 3}}, b: *t}\n")
    config = load_config(tmp_path, home=tmp_path / "home").config
    assert config.thread_types["a"] == config.thread_types["b"]


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "null\n", "{}\n", "\ufeffqueue: {depth: 1}\n"])
def test_an_empty_file_is_the_defaults(tmp_path: Path, text: str) -> None:
    """A file without keys is fine, and a byte order mark is no part of the first key."""
    (tmp_path / "slate.yaml").write_text(text, encoding="utf-8")
    assert load_config(tmp_path, home=tmp_path / "home").config.max_concurrent == 8


def test_not_utf8_names_the_line(tmp_path: Path) -> None:
    """A file in another encoding is an error with the line of the first bad byte."""
    (tmp_path / "slate.yaml").write_bytes(b"# ok\nworkspace: caf\xe9\n")
    with pytest.raises(ConfigError, match=r"slate\.yaml:2: not UTF-8"):
        load_config(tmp_path, home=tmp_path / "home")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"queue": {"depth": 5,\n"depth": 9}}', "slate.json:2, depth: the key stands twice"),
        ('{\n"limits": {"thread": {"turns": 1e3}}}', "slate.json:2, limits.thread.turns: expected a whole number"),
        ('{"limits": {"thread": {"turns": 5.0}}}', "expected a whole number, found `5.0`"),
        ('{"limits": {"thread": {"turns": "5"}}}', "take the quotes off"),
        ('{"limits": {"thread": {"turns": true}}}', "expected a whole number, found `true`"),
        ('{"limits": {"day": {"usd": NaN}}}', "expected a number, found `NaN`"),
        ('{"workspace": 5}', "expected text, found `5`: put it in quotes"),
        ('{"workspace": null}', "expected text, found nothing"),
        ('{"workspace": "\\ud800"}', "half of a character pair"),
        ("[]", "slate.json:1: expected an object"),
        ("", "slate.json:1: not JSON"),
        ('{"a": 1,}', "not JSON"),
        ("{} {}", "not JSON"),
        ("[" * 5_000, "nested more than 32 deep"),
        ("[" + "1," * 6_000 + "1]", "more than 5000 values"),
    ],
)
def test_json_is_as_strict(tmp_path: Path, text: str, says: str) -> None:
    """slate.json has the same keys and the same rules; only text always needs its quotes."""
    assert any(says in found for found in problems(tmp_path, text, name="slate.json"))


def test_both_spellings_say_the_same(tmp_path: Path) -> None:
    """The same values in YAML and in JSON give the same configuration."""
    values = {
        "queue": {"depth": 3},
        "limits": {"day": {"usd": 0.25}},
        "workspace": "w",
        "models": {"exclude": ["gpt-sol"]},
    }
    for name in ("yaml", "json"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"slate.{name}").write_text(json.dumps(values, indent=1))
    loaded = [load_config(tmp_path / name, home=tmp_path) for name in ("yaml", "json")]
    assert loaded[0].config == loaded[1].config
    assert [p.line for p in loaded[0].places.values()] == [p.line for p in loaded[1].places.values()]


KEYS = st.sampled_from(
    [
        "queue",
        "depth",
        "limits",
        "thread",
        "tokens",
        "models",
        "add",
        "providers",
        "openai",
        "headers",
        "workspace",
        "x",
    ]
)
SCALARS = st.one_of(
    st.sampled_from(
        ["5", "010", "1e3", "null", "~", "''", '"a"', "no", "&a", "*a", "!!int 3", "<<", "|", ">", "---", "\t"]
    ),
    st.text(max_size=8),
)
BLOCKS = st.lists(st.tuples(st.integers(0, 3), KEYS, SCALARS), max_size=12).map(
    lambda rows: "".join(f"{'  ' * indent}{key}: {scalar}\n" for indent, key, scalar in rows)
)
FLOWS = st.text(alphabet="{}[],:&*!|>'\"#%@-?~ \n\t\\UuXx019ae.<", max_size=60)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose file is written again for each example."""
    return tmp_path_factory.mktemp("any")


@settings(max_examples=60, deadline=None)
@given(text=st.one_of(BLOCKS, FLOWS, st.text()))
@example(text="? ?\n")
@example(text='"\\x"')
@example(text="%YAML 9.9\n---\na: b")
@example(text="%YAML " + "1" * 5000 + ".1\n---\n")
@example(text="%TAG ! x\n---\n!a b: c")
@example(text="queue: {<<: {}}")
@example(text="{a: b, ? , : }")
def test_any_yaml_loads_or_raises_config_error(project: Path, text: str) -> None:
    """Whatever stands in slate.yaml, it either loads or raises ConfigError, never another exception."""
    (project / "slate.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    with suppress(ConfigError):
        load_config(project, home=project / "home")


@settings(max_examples=50, deadline=None)
@given(text=st.one_of(st.text(alphabet='{}[],:"\\u0123456789abcdefeE+-.nulltrs \n'), st.text()))
def test_any_json_is_read_or_refused(text: str) -> None:
    """Whatever stands in slate.json, the reader gives a table or says why not, and agrees with the standard library."""
    parsed = read_json(text)
    assert parsed.root is not None or parsed.faults
    if parsed.root is not None:
        assert isinstance(json.loads(text), dict)


@given(
    value=st.recursive(
        st.one_of(st.text(), st.booleans(), st.integers(-99, 99)),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
        max_leaves=8,
    )
)
@settings(max_examples=50, deadline=None)
def test_json_keeps_every_value(value: object) -> None:
    """A JSON document is read as the standard library reads it, scalars in their spelling."""

    def spelled(v: object) -> object:
        if isinstance(v, dict):
            return {key: spelled(item) for key, item in v.items()}
        if isinstance(v, list):
            return [spelled(item) for item in v]
        return v if isinstance(v, str) else json.dumps(v)

    parsed = read_json(json.dumps({"k": value}))
    assert parsed.root is not None
    assert not parsed.faults
    assert parsed.root.plain() == {"k": spelled(value)}


def test_large_files_are_read_in_bounded_time() -> None:
    """A file at the size limit takes seconds at most, whatever its shape."""
    assert read_yaml("# " + "x" * 200_000 + "\n").root is not None
    assert read_yaml("a: |\n" + "  line\n" * 20_000).root is not None
