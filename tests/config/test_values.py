"""What a scalar means is decided by the field it stands in, and by nothing else."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from slate_lab.config import load_config
from slate_lab.errors import ConfigError


def problems(tmp_path: Path, text: str, *, name: str = "slate.yaml", overrides: Any = None) -> list[str]:
    """The problems of a project file, as printed, without the directory."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path, home=tmp_path / "home", overrides=overrides)
    return [str(p).replace(f"{tmp_path}/", "") for p in caught.value.problems]


@pytest.mark.parametrize(
    "text",
    ["no", "on", "12:30:45", "3.10", "2024-01-01", "007", "1e3", "0x1F", "true", "'null'", '"~"', "NaN"],
)
def test_a_text_field_keeps_what_was_typed(tmp_path: Path, text: str) -> None:
    """A plain scalar in a text field stays the author's text, and so does a quoted null."""
    (tmp_path / "slate.yaml").write_text(f"threadTypes: {{a: {{charter: {text}}}}}\n")
    config = load_config(tmp_path, home=tmp_path / "home").config
    assert config.thread_types["a"].charter == text.strip("'\"")


@pytest.mark.parametrize("text", ["null", "~", "", "Null", "NULL"])
def test_null_is_no_text(tmp_path: Path, text: str) -> None:
    """A required text field that holds null is an error that names the place; null is not the text `null`."""
    found = problems(tmp_path, f"\nworkspace: {text}\n")
    assert found == [
        "slate.yaml:2, workspace: expected text, found nothing: null means absent, put it in quotes if it is the text"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "1e3",
        "010",
        "true",
        "500.0",
        "1_000",
        '"500"',
        "0x10",
        "+5",
        "-0",
        " '5'",
        "1" * 400,
        "٣",
        "no",
        "[5]",
        "{a: 5}",
    ],
)
def test_a_whole_number_has_one_spelling(tmp_path: Path, text: str) -> None:
    """Anything but plain decimal digits is an error in a whole-number field, with file, line and key path."""
    found = problems(tmp_path, f"limits:\n  thread:\n    tokens: {text}\n")
    assert len(found) == 1
    assert found[0].startswith("slate.yaml:3, limits.thread.tokens: expected a whole number")


@pytest.mark.parametrize(
    "text", [".inf", ".nan", "-.inf", "1e-2", "nan", "1.", ".5", "00.5", "1" * 400, "-1", "'1'", "true"]
)
def test_money_is_plain_decimal_and_finite(tmp_path: Path, text: str) -> None:
    """Infinity, NaN, exponents, quotes and signs are refused where dollars are meant."""
    found = problems(tmp_path, f"limits: {{day: {{usd: {text}}}}}\n")
    assert found[0].startswith("slate.yaml:1, limits.day.usd: ")


def test_money_is_exact(tmp_path: Path) -> None:
    """Dollars are read as the decimal that stands there."""
    (tmp_path / "slate.yaml").write_text("limits: {day: {usd: 0.10}, thread: {usd: 0}}\n")
    limits = load_config(tmp_path, home=tmp_path / "home").config.limits
    assert limits.day.usd == Decimal("0.10")
    assert limits.thread.usd == 0


@pytest.mark.parametrize("text", ["yes", "on", "True", "TRUE", "1", '"true"', "null"])
def test_a_switch_is_true_or_false(tmp_path: Path, text: str) -> None:
    """Only `true` and `false` switch; null leaves the catalog's word, which is what absent means."""
    file = f"providers: {{openai: {{models: {{m: {{tools: {text}}}}}}}}}\n"
    if text == "null":
        (tmp_path / "slate.yaml").write_text(file)
        provider = load_config(tmp_path, home=tmp_path / "home").config.providers["openai"]
        assert provider.models["m"].tools is None
        return
    assert "expected true or false" in problems(tmp_path, file)[0]


@pytest.mark.parametrize(
    ("overrides", "path"),
    [
        ({"limits": {"thread": {"turns": True}}}, "limits.thread.turns"),
        ({"limits": {"thread": {"turns": "5"}}}, "limits.thread.turns"),
        ({"limits": {"thread": {"turns": 5.0}}}, "limits.thread.turns"),
        ({"limits": {"thread": {"seconds": float("nan")}}}, "limits.thread.seconds"),
        ({"limits": {"day": {"usd": float("inf")}}}, "limits.day.usd"),
        ({"limits": {"day": {"usd": Decimal("NaN")}}}, "limits.day.usd"),
        ({"workspace": 5}, "workspace"),
        ({"workspace": Path(".")}, "workspace"),
        ({"workspace": "\ud800"}, "workspace"),
        ({"compressor": {"models": {"a"}}}, "compressor.models"),
        ({5: 6}, ""),
    ],
    ids=["bool", "quoted", "float", "nan", "inf", "decimal-nan", "int-text", "path", "surrogate", "set", "key"],
)
def test_overrides_are_as_strict_as_the_file(tmp_path: Path, overrides: Any, path: str) -> None:
    """A Python value of the wrong type is an error too: True is no number, "5" is no number, 5 is no text."""
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path, home=tmp_path, overrides=overrides)
    place = caught.value.problems[0].place
    assert (place.file, place.path) == ("override", path)


def test_overrides_take_python_values(tmp_path: Path) -> None:
    """Numbers, decimals, lists and tuples of the right type are taken."""
    config = load_config(
        tmp_path,
        home=tmp_path,
        overrides={"limits": {"thread": {"turns": 5, "seconds": 1.5}, "day": {"usd": 0.1}}, "models": {"exclude": ()}},
    ).config
    assert config.limits.thread.turns == 5
    assert config.limits.thread.seconds == 1.5
    assert config.limits.day.usd == Decimal("0.1")


def test_an_endless_override_is_refused(tmp_path: Path) -> None:
    """A mapping that holds itself is an error and not an endless loop."""
    loop: dict[str, Any] = {}
    loop["models"] = loop
    with pytest.raises(ConfigError):
        load_config(tmp_path, home=tmp_path, overrides=loop)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("apiKeyEnv: sk-live-51abc", "the key itself must not stand in a file"),
        ("headers: {Authorization: Bearer sk-live-51abc}", "name its variable in apiKeyEnv"),
        ("headers: {X-Note: 'sk-live-51abc'}", None),
        ('headers: {X-Note: "sk-live-51abc\\r\\nHost: x"}', "printable ASCII"),
        ("baseUrl: http://user:sk-live-51abc@host/v1", "must hold no user or password"),
        ("baseUrl: 'http://host/v1?key=sk-live-51abc'", "without a query"),
        ("baseUrl: 'http://[sk-live-51abc'", "baseUrl"),
        ("baseUrl: ftp://sk-live-51abc", "expected an address"),
        ("baseUrl: http://h:99999/sk-live-51abc", "baseUrl"),
    ],
)
def test_a_key_in_the_file_is_refused_and_not_repeated(tmp_path: Path, line: str, says: str | None) -> None:
    """Where a key could be pasted by mistake it is refused where it can be told, and no message ever shows it."""
    text = f"providers: {{mine: {{protocol: chat, {line}}}}}\n"
    if says is not None:
        (said,) = problems(tmp_path, text)
        assert says in said
        assert "sk-live-51abc" not in said
        return
    (tmp_path / "slate.yaml").write_text(text)
    assert "sk-live-51abc" not in repr(load_config(tmp_path, home=tmp_path / "home"))


def test_the_keys_of_slots_are_spelled_as_they_are(tmp_path: Path) -> None:
    """`surface_root` and `enforce_slot_timeouts` keep their underscores; a type says all, base or a list of slots."""
    text = "runtime: {surface_root: core, enforce_slot_timeouts: true}\nslots: {capabilities: [state.*]}\n"
    (tmp_path / "slate.yaml").write_text(text + "threadTypes: {a: {slots: all}, b: {slots: [recall]}, c: {}}\n")
    config = load_config(tmp_path, home=tmp_path / "home").config
    assert (config.runtime.surface_root, config.runtime.enforce_slot_timeouts) == ("core", True)
    assert config.slots.capabilities == ["state.*"]
    assert [t.slots for t in config.thread_types.values()] == ["all", ["recall"], None]


def test_a_slot_choice_that_is_none(tmp_path: Path) -> None:
    """Another word for the slots of a type is refused with the words that are known."""
    (tmp_path / "slate.yaml").write_text("threadTypes: {a: {slots: some}}\nruntime: {surfaceRoot: x}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path, home=tmp_path / "home")
    assert "expected all, base or a list of slot ids" in str(caught.value)
    assert "did you mean surface_root?" in str(caught.value)
