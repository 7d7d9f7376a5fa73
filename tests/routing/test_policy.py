"""Logical models: edits of the pool, exact routes, keys, and every problem at once."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slate_lab.config import LabConfig, load_config
from slate_lab.errors import ConfigError, DispatchError
from slate_lab.models.catalog import PRESETS
from slate_lab.records import Route
from slate_lab.routing.listing import model_rows
from slate_lab.routing.policy import MAX_CHARS, MAX_LINES, LogicalModel, Policy
from slate_lab.routing.pool import POOL
from slate_lab.routing.rows import narrow
from slate_lab.verbs.text import table

MINE = {
    "model": "mine",
    "capabilityRating": 40,
    "effort": "off",
    "costRating": 5,
    "preferredProvider": "ollama",
    "providers": {"ollama": "qwen3:8b"},
    "guidelines": "Anything.",
    "cautions": "None known.",
}
SHIPPED = [model.model for model in POOL]


def resolve(tmp_path: Path, **values: Any) -> Policy:
    """The policy of a project with these values."""
    loaded = load_config(tmp_path, home=tmp_path, overrides=values)
    return Policy.resolve(loaded.config, places=loaded.places)


def codes(tmp_path: Path, **values: Any) -> list[tuple[str, str]]:
    """Codes and key paths of the problems."""
    with pytest.raises(ConfigError) as caught:
        resolve(tmp_path, **values)
    return [(p.code, p.place.path) for p in caught.value.problems]


def test_a_definition_has_exactly_eight_fields() -> None:
    """A logical model has the eight fields of the file and no others."""
    assert msgspec.structs.fields(LogicalModel)[0].name == "model"
    assert len(msgspec.structs.fields(LogicalModel)) == 8
    assert len(MINE) == 8


def test_the_shipped_pool_is_whole() -> None:
    """The pool resolves as it is, has the embedded model and each major family, and every route has a preset."""
    policy = Policy.resolve(LabConfig())
    assert list(policy.models) == SHIPPED
    assert "local" in policy.models
    families = {"openai", "anthropic", "gemini", "groq", "openrouter"}
    assert families <= {model.preferred_provider for model in POOL}
    for model in POOL:
        assert 1 <= model.capability_rating <= 100
        assert 1 <= model.cost_rating <= 100
        assert model.preferred_provider in model.providers
        assert set(model.providers) <= set(PRESETS)
    assert "judgement" in policy.render()


def test_every_shipped_route_can_be_granted() -> None:
    """With all keys set, each permitted route of each shipped model knows the effort that the definition fixes."""
    policy = Policy.resolve(LabConfig())
    for name, model in policy.models.items():
        for route in model.routes:
            variable = policy.providers[route.provider].api_key_env
            grant = policy.route(name, {variable: "k"} if variable else {})
            assert grant.route == route
            assert grant.effort in (*grant.capabilities.efforts, None)


@pytest.mark.parametrize(
    ("edits", "names"),
    [
        ({}, SHIPPED),
        ({"include": ["gpt-sol", "local"]}, ["local", "gpt-sol"]),
        ({"include": [], "add": [MINE]}, ["mine"]),
        ({"add": [MINE]}, [*SHIPPED, "mine"]),
        ({"exclude": ["local", "gpt-sol"]}, [n for n in SHIPPED if n not in ("local", "gpt-sol")]),
        ({"include": ["local", "gpt-sol"], "exclude": ["gpt-sol"]}, ["local"]),
        ({"add": [MINE], "exclude": ["mine"]}, SHIPPED),
        ({"replace": {"gpt-sol": {"costRating": 1}}, "exclude": ["gpt-sol"]}, [n for n in SHIPPED if n != "gpt-sol"]),
    ],
    ids=["none", "include", "only-mine", "add", "exclude", "exclude-included", "exclude-added", "exclude-replaced"],
)
def test_edits_of_the_pool(tmp_path: Path, edits: dict[str, Any], names: list[str]) -> None:
    """Include sets the members, add brings whole definitions, exclude wins last."""
    assert list(resolve(tmp_path, models=edits).models) == names


def test_replace_changes_only_what_it_names(tmp_path: Path) -> None:
    """Replacing some fields of a shipped definition keeps the others."""
    before = next(model for model in POOL if model.model == "gpt-sol")
    edit = {"effort": "high", "capabilityRating": 90, "costRating": 70}
    after = resolve(tmp_path, models={"replace": {"gpt-sol": edit}}).models["gpt-sol"]
    assert (after.effort, after.capability_rating, after.cost_rating) == ("high", 90, 70)
    assert after.guidelines == before.guidelines
    assert after.providers == before.providers


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"defaultModel": "gpt"}, [("unknown_model", "defaultModel")]),
        ({"threadTypes": {"a": {"model": "nobody"}}}, [("unknown_model", "threadTypes.a.model")]),
        ({"compressor": {"models": ["local", "nobody"]}}, [("unknown_model", "compressor.models[1]")]),
        ({"providers": {"mine": {}}}, [("no_protocol", "providers.mine")]),
        ({"providers": {"mine": {"protocol": "chat"}}}, [("no_address", "providers.mine")]),
        ({"providers": {"mine": {"protocol": "local"}}}, [("no_weights", "providers.mine")]),
        ({"providers": {"openai": {"weights": "x"}}}, [("local_only", "providers.openai.weights")]),
        ({"providers": {"openai": {"idleSeconds": 5}}}, [("local_only", "providers.openai.idleSeconds")]),
    ],
    ids=lambda value: value[0][0] if isinstance(value, list) else "",
)
def test_problems_of_names_and_providers(
    tmp_path: Path, values: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """A name that nothing stands behind, or a provider that cannot be reached, is an error with its key path."""
    assert codes(tmp_path, **values) == expected


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ({"include": ["gpt_sol"]}, ["unknown_model: include[0]", "empty_pool: "]),
        ({"include": ["local", "local"]}, ["listed_twice: include[1]"]),
        ({"add": [{**MINE, "model": "local"}]}, ["name_taken: add[0].model"]),
        ({"add": [MINE, MINE]}, ["name_taken: add[1].model"]),
        ({"add": [{**MINE, "preferredProvider": "groq"}]}, ["preferred_provider: add[0].preferredProvider"]),
        ({"add": [{**MINE, "cautions": " "}]}, ["blank: add[0].cautions"]),
        ({"add": [{**MINE, "providers": {"ollama": " "}}]}, ["blank: add[0].providers.ollama"]),
        ({"add": [{**MINE, "providers": {"olama": "x"}, "preferredProvider": "olama"}]}, ["unknown_provider: "]),
        ({"replace": {"gpt-sol": {"effort": "high"}}}, ["ratings_needed: replace.gpt-sol.effort"]),
        ({"replace": {"gpt-sol": {"effort": "high", "costRating": 9}}}, ["ratings_needed: replace.gpt-sol.effort"]),
        ({"replace": {"gpt-sol": {"effort": None}}}, ["missing_value: replace.gpt-sol"]),
        ({"replace": {"gpt-sol": {}}}, ["empty_edit: replace.gpt-sol"]),
        ({"replace": {"gpt-so": {"costRating": 1}}}, ["unknown_model: replace.gpt-so"]),
        ({"add": [MINE], "replace": {"mine": {"costRating": 1}}}, ["unknown_model: replace.mine"]),
        ({"include": ["local"], "replace": {"gpt-sol": {"costRating": 1}}}, ["not_included: replace.gpt-sol"]),
        ({"exclude": ["nobody"]}, ["unknown_model: exclude[0]"]),
    ],
    ids=lambda value: value[0].partition(":")[0] if isinstance(value, list) else "",
)
def test_problems_of_edits(tmp_path: Path, edits: dict[str, Any], expected: list[str]) -> None:
    """A definition or an edit that cannot hold is an error with its key path."""
    found = codes(tmp_path, models=edits)
    assert [f"{code}: {path.removeprefix('models').removeprefix('.')}" for code, path in found] == expected


def test_all_problems_at_once_with_their_lines(tmp_path: Path) -> None:
    """Every problem is collected, any one blocks, and each says where it stands."""
    (tmp_path / "slate.yaml").write_text(
        "defaultModel: gpt_sol\nmodels:\n  exclude: [nobody]\n  replace:\n    gpt-sol: {effort: high}\n"
    )
    loaded = load_config(tmp_path, home=tmp_path / "home")
    with pytest.raises(ConfigError) as caught:
        Policy.resolve(loaded.config, places=loaded.places)
    assert {(p.code, p.place.line) for p in caught.value.problems} == {
        ("unknown_model", 1),
        ("unknown_model", 3),
        ("ratings_needed", 5),
    }
    assert "did you mean gpt-sol" in str(caught.value)


@pytest.mark.parametrize(
    "added",
    [[{**MINE, "guidelines": "x" * MAX_CHARS}], [{**MINE, "model": f"m{i}"} for i in range(MAX_LINES)]],
    ids=["characters", "lines"],
)
def test_the_rendered_policy_has_a_cap(tmp_path: Path, added: list[dict[str, Any]]) -> None:
    """A policy of more than 19,400 characters or 105 lines is an error."""
    assert codes(tmp_path, models={"add": added}) == [("policy_too_long", "models")]


def test_the_cap_is_not_reached_early(tmp_path: Path) -> None:
    """Just under the cap is fine."""
    room = MAX_LINES - resolve(tmp_path).render().count("\n") - 1
    policy = resolve(tmp_path, models={"add": [{**MINE, "model": f"m{i}"} for i in range(room)]})
    assert policy.render().count("\n") + 1 == MAX_LINES


def test_the_default_model(tmp_path: Path) -> None:
    """`defaultModel` wins; else the first model whose key is set; else the embedded one; a blank key is no key."""
    policy = resolve(tmp_path)
    assert policy.default({}) == "local"
    assert policy.default({"OPENAI_API_KEY": "  "}) == "local"
    assert policy.default({"OPENAI_API_KEY": "k"}) == "gpt-luna"
    assert policy.default({"OPENROUTER_API_KEY": "k"}) == "gpt-oss"
    assert resolve(tmp_path, defaultModel="gpt-sol").default({}) == "gpt-sol"
    assert resolve(tmp_path, models={"exclude": ["local"]}).default({}) == "gpt-luna"


def test_an_unknown_model_names_near_ones(tmp_path: Path) -> None:
    """A mistyped logical model is refused with what was probably meant."""
    with pytest.raises(DispatchError, match="did you mean gpt-sol") as caught:
        resolve(tmp_path).route("gpt_sol", {})
    assert caught.value.code == "unknown_model"


def test_a_missing_key_says_what_to_type(tmp_path: Path) -> None:
    """Without a key the refusal names each variable and the line that sets it."""
    with pytest.raises(DispatchError) as caught:
        resolve(tmp_path).route("gpt-oss", {"OPENAI_API_KEY": "k"})
    assert caught.value.code == "missing_key"
    assert "`export GROQ_API_KEY=...` or `export OPENROUTER_API_KEY=...`" in str(caught.value)


def test_the_preferred_provider_answers_unless_its_key_is_missing(tmp_path: Path) -> None:
    """The preferred route comes first, then the others in their order; one without a key is skipped."""
    policy = resolve(tmp_path)
    both = {"GROQ_API_KEY": "k", "OPENROUTER_API_KEY": "k"}
    assert policy.route("gpt-oss", both).route == Route("groq", "openai/gpt-oss-120b")
    assert policy.route("gpt-oss", {"OPENROUTER_API_KEY": "k"}).route.provider == "openrouter"
    assert policy.route("gpt-oss", {}, need_key=False).route.provider == "groq"


def test_the_effort_is_fixed_and_known(tmp_path: Path) -> None:
    """The grant carries the definition's effort; `off` sends none where there are none; an unknown one is refused."""
    policy = resolve(tmp_path, models={"add": [MINE, {**MINE, "model": "keen", "effort": "high"}]})
    assert policy.route("gpt-luna", {"OPENAI_API_KEY": "k"}).effort == "off"
    assert policy.route("mine", {}).effort is None
    with pytest.raises(DispatchError, match="`efforts`") as caught:
        policy.route("keen", {})
    assert caught.value.code == "effort_unsupported"
    declared = {"ollama": {"models": {"qwen3:8b": {"efforts": ["high"]}}}}
    policy = resolve(tmp_path, providers=declared, models={"add": [{**MINE, "effort": "high"}]})
    assert policy.route("mine", {}).effort == "high"


def test_a_project_changes_a_preset_only_where_it_says_so(tmp_path: Path) -> None:
    """Settings of a preset's name are laid over the preset; the rest of it stays."""
    policy = resolve(
        tmp_path,
        providers={"openai": {"timeoutSeconds": 5, "headers": {"X-Team": "a"}}, "local": {"contextTokens": 4096}},
    )
    openai = policy.providers["openai"]
    assert (openai.timeout_s, openai.protocol, openai.api_key_env) == (5.0, "responses", "OPENAI_API_KEY")
    assert openai.base_url == "https://api.openai.com/v1"
    assert openai.headers == {"X-Team": "a"}
    assert "timeout_s" not in policy.providers["local"].model_fields_set
    assert policy.route("local", {}).capabilities.window == 4096


def test_an_unknown_window_stays_unknown(tmp_path: Path) -> None:
    """Capabilities that nobody declared are not guessed; what the project declares is taken."""
    policy = resolve(tmp_path, models={"add": [MINE]})
    assert policy.route("mine", {}).capabilities.window is None
    said = {"ollama": {"models": {"qwen3:8b": {"window": 32768, "tools": False, "schema": False, "maxOutput": 100}}}}
    able = resolve(tmp_path, models={"add": [MINE]}, providers=said).route("mine", {}).capabilities
    assert (able.window, able.tools, able.schema, able.max_output) == (32768, False, False, 100)


def test_other_weights_give_the_embedded_model_their_name(tmp_path: Path) -> None:
    """When the embedded server runs another file, the route and its records carry that file's name."""
    policy = resolve(tmp_path, providers={"local": {"weights": "/models/Qwen3-4B-Q4.gguf"}})
    assert policy.route("local", {}).route == Route("local", "Qwen3-4B-Q4")


def test_a_scripted_provider_needs_nothing(tmp_path: Path) -> None:
    """A scripted route is granted without a key and costs nothing."""
    policy = resolve(
        tmp_path, models={"add": [{**MINE, "providers": {"scripted": "s"}, "preferredProvider": "scripted"}]}
    )
    assert policy.route("mine", {}).provider.protocol == "scripted"
    row = next(row for row in model_rows(policy, {}) if row["name"] == "mine")
    assert (row["key_variable"], row["key_present"], row["price"]) == (None, True, "free here")


def test_rows_say_what_a_person_needs(tmp_path: Path) -> None:
    """One row per permitted route: whether its key is set, by name and never by value, its window, its price."""
    price = {"input": Decimal("0.5"), "output": Decimal(2)}
    policy = resolve(
        tmp_path, models={"add": [MINE]}, providers={"ollama": {"models": {"qwen3:8b": {"price": price, "window": 9}}}}
    )
    rows = model_rows(policy, {"OPENAI_API_KEY": "sk-secret"}, at_ns=1_764_000_000_000_000_000)
    assert "sk-secret" not in str(rows)
    by_name = {row["name"]: row for row in rows}
    assert by_name["gpt-luna"]["key_present"] is True
    assert by_name["gpt-luna"]["default"] is True
    assert by_name["claude-sonnet"]["key_present"] is False
    assert by_name["local"]["price"] == "free here"
    assert by_name["mine"]["price"].startswith("$0.5 in, $2 out")
    assert by_name["mine"]["window"] == 9
    assert [row["provider"] for row in rows if row["name"] == "gpt-oss"] == ["groq", "openrouter"]


def test_every_hosted_model_has_a_price() -> None:
    """The shipped hosted models are all in the price list, so that their spend is known."""
    rows = model_rows(Policy.resolve(LabConfig()), {}, at_ns=1_796_000_000_000_000_000)
    assert [row["name"] for row in rows if row["price"] == "unknown"] == []


def test_the_narrow_rows_fit_a_page(tmp_path: Path) -> None:
    """For an eye: eight short columns under 100 characters a line, what routes share told once, no key's value."""
    rows = model_rows(Policy.resolve(LabConfig()), {"GROQ_API_KEY": "gsk-secret"}, at_ns=1_796_000_000_000_000_000)
    text = table(narrow(rows))
    assert max(map(len, text.splitlines())) <= 100
    assert "gsk-secret" not in text
    oss = [row for row in narrow(rows) if row["route"].endswith("gpt-oss-120b")]
    assert [(row["model"], row["cap"], row["key"]) for row in oss] == [("gpt-oss *", 45, "set"), ("", None, "no")]
    assert oss[0]["$/M in, out"] == "0.15, 0.6"


def test_a_window_nobody_knows_is_shown_as_unknown(tmp_path: Path) -> None:
    """An unknown window says so, in the narrow rows too, and is null for a program."""
    rows = [r for r in model_rows(resolve(tmp_path, models={"add": [MINE]}), {}) if r["name"] == "mine"]
    assert (rows[0]["window"], narrow(rows)[0]["window"], narrow(rows)[0]["$/M in, out"]) == (
        None,
        "unknown",
        "unknown",
    )
