"""What is known of providers and models before a project says anything: addresses, key variables, capabilities.

In: a provider's name, a model's exact id. Out: a `ProviderSpec`, or `Capabilities` that hold only what the provider
documents; the rest is unknown and stays None. A project overrides both under `providers`. Called by the policy.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from slate_lab.config import ProviderSpec, RouteSpec
from slate_lab.models.protocol import Capabilities

__all__ = ["LOCAL_MODEL", "PRESETS", "capabilities", "weights_name", "with_preset"]

LOCAL_OUTPUT = 512
"""Tokens of one answer of an embedded model: small ones can repeat themselves for minutes, and briefs are short."""

LOCAL_MODEL = "qwen2.5-coder-0.5b"
"""The embedded model that a fresh machine runs."""

_HOSTED: tuple[tuple[str, str, str, str], ...] = (
    ("openai", "responses", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    ("anthropic", "messages", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
    ("openrouter", "chat", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    ("gemini", "chat", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    ("groq", "chat", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    ("deepseek", "chat", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    ("mistral", "chat", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    ("xai", "chat", "https://api.x.ai/v1", "XAI_API_KEY"),
)


def _hosted(protocol: str, base_url: str, key: str) -> ProviderSpec:
    return ProviderSpec.model_validate({"protocol": protocol, "baseUrl": base_url, "apiKeyEnv": key})


def _here(base_url: str) -> ProviderSpec:
    return ProviderSpec.model_validate({"protocol": "chat", "baseUrl": base_url})


PRESETS: Mapping[str, ProviderSpec] = {
    "local": ProviderSpec.model_validate({"protocol": "local", "weights": LOCAL_MODEL}),
    **{name: _hosted(protocol, base_url, key) for name, protocol, base_url, key in _HOSTED},
    "ollama": _here("http://127.0.0.1:11434/v1"),
    "llamacpp": _here("http://127.0.0.1:8080/v1"),
    "vllm": _here("http://127.0.0.1:8000/v1"),
    "scripted": ProviderSpec.model_validate({"protocol": "scripted"}),
}
"""Providers that need no more than a key in the environment, or nothing."""

_GPT = Capabilities(
    window=1_050_000, max_output=128_000, efforts=("off", "low", "medium", "high", "xhigh", "max"),
)  # fmt: skip
_CLAUDE = Capabilities(
    window=1_000_000, max_output=128_000, efforts=("off", "low", "medium", "high", "xhigh", "max"),
)  # fmt: skip
_GEMINI = Capabilities(window=1_000_000, efforts=("minimal", "low", "medium", "high"))
_OSS = Capabilities(window=131_072, efforts=("low", "medium", "high"))

_MODELS: Mapping[tuple[str, str], Capabilities] = {
    ("openai", "gpt-6.1-sol"): msgspec.structs.replace(_GPT, efforts=_GPT.efforts[1:]),  # it always thinks
    ("openai", "gpt-6-luna"): _GPT,
    ("anthropic", "claude-sonnet-5-5"): msgspec.structs.replace(_CLAUDE, efforts=_CLAUDE.efforts[1:]),  # likewise
    ("anthropic", "claude-haiku-5-5"): _CLAUDE,
    ("gemini", "gemini-3.8-flash"): _GEMINI,
    ("groq", "openai/gpt-oss-120b"): _OSS,
    ("openrouter", "openai/gpt-oss-120b"): _OSS,
    ("openrouter", "deepseek/deepseek-v4.1-flash"): Capabilities(window=1_048_576),
}


def with_preset(name: str, spec: ProviderSpec | None) -> ProviderSpec | None:
    """The project's `spec` laid over the preset `name`: what it sets wins, models and headers are joined.

    Returns:
        None if there is neither.
    """
    preset = PRESETS.get(name)
    if spec is None or preset is None:
        return spec or preset
    said = {field: getattr(spec, field) for field in spec.model_fields_set}
    if "headers" in said:
        said["headers"] = {**preset.headers, **spec.headers}
    if said.get("protocol", preset.protocol) is None:
        said["protocol"] = preset.protocol
    return preset.model_copy(update=said)


def weights_name(weights: str) -> str:
    """What a model is called that runs from `weights`: the catalog name, or the file's name without `.gguf`."""
    return weights.replace("\\", "/").rstrip("/").rpartition("/")[2].removesuffix(".gguf") or weights


def capabilities(provider: str, spec: ProviderSpec, model: str) -> Capabilities:
    """What the route `provider`/`model` can do: the catalog's word, overridden by the project's."""
    if spec.protocol == "local":
        base = Capabilities(parallel_tools=False, window=spec.context_tokens, max_output=LOCAL_OUTPUT)
    elif spec.protocol == "scripted":
        base = Capabilities()
    else:
        base = _MODELS.get((provider, model), Capabilities())
    route = spec.models.get(model)
    return base if route is None else _overridden(base, route)


def _overridden(base: Capabilities, route: RouteSpec) -> Capabilities:
    said = {
        "tools": route.tools,
        "parallel_tools": route.parallel_tools,
        "schema": route.json_schema,
        "window": route.window,
        "max_output": route.max_output,
        "efforts": None if route.efforts is None else tuple(route.efforts),
    }
    return msgspec.structs.replace(base, **{name: value for name, value in said.items() if value is not None})
