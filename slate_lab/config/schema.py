"""`slate.yaml` as frozen values: names are snake_case here and camelCase in the file, mapped once, by alias.

In: the merged file as plain values. Out: `LabConfig`, or pydantic's list of problems, which `problems` puts into words.
Called by `load`; everybody else only reads a `LabConfig`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from slate_lab.config.extensions import UnitPattern
from slate_lab.config.memory import LedgerSpec, SlateSpec, TargetSpec
from slate_lab.config.pacing import RoutePaceSpec, ThrottleSpec
from slate_lab.config.servers import McpSpec
from slate_lab.config.spec import Spec
from slate_lab.config.surface import RuntimeSpec, SlotsOf, SlotsSpec
from slate_lab.config.tools import ToolsSpec
from slate_lab.config.values import (
    Address,
    Count,
    EnvName,
    Flag,
    HeaderName,
    HeaderValue,
    Money,
    Name,
    Seconds,
    Text,
    Whole,
    read_text,
    read_whole,
)
from slate_lab.config.worker import WorkerSpec

__all__ = [
    "EFFORTS",
    "CompressorSpec",
    "LabConfig",
    "LimitsSpec",
    "LogicalModelEdit",
    "LogicalModelSpec",
    "ModelsSpec",
    "PriceSpec",
    "ProviderSpec",
    "QueueSpec",
    "ReplaySpec",
    "RouteSpec",
    "RuntimeSpec",
    "ScopesSpec",
    "SlotsSpec",
    "SpendSpec",
    "ThreadTypeSpec",
    "ToolsSpec",
    "WorkerSpec",
    "json_schema",
]

EFFORTS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")

_word = BeforeValidator(read_text)
Effort = Annotated[Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"], _word]
Protocol = Annotated[Literal["chat", "responses", "messages", "local", "scripted"], _word]
Rating = Annotated[int, Field(ge=1, le=100), BeforeValidator(read_whole)]
Retries = Annotated[int, Field(ge=0, le=20), BeforeValidator(read_whole)]


class PriceSpec(Spec):
    """US dollars per million tokens, exactly; a cache price that is not given is the input price."""

    input: Money
    output: Money
    cache_read: Money | None = None
    cache_write_5m: Money | None = Field(default=None, alias="cacheWrite5m")
    cache_write_1h: Money | None = Field(default=None, alias="cacheWrite1h")


class RouteSpec(Spec):
    """What one model of a provider can do, where the catalog does not know or is wrong; absent keeps the catalog's."""

    window: Whole | None = None
    max_output: Whole | None = None
    tools: Flag | None = None
    parallel_tools: Flag | None = None
    # `schema` is a method of every pydantic model
    json_schema: Flag | None = Field(default=None, alias="schema")
    efforts: list[Effort] | None = None
    price: PriceSpec | None = None


class ProviderSpec(Spec):
    """Where requests go. A preset's name (`openai`, `local`, ...) changes only what is set; others need a protocol.

    Attributes:
        protocol: the wire protocol; None only in a file, for a preset.
        base_url: where it answers; None for `local` and `scripted`.
        api_key_env: the environment variable that holds the key; None needs no key.
        headers: sent with every request; never keys.
        timeout_s: seconds without a byte before an exchange is given up.
        max_retries: exchanges after the first.
        max_wait_s: the longest single wait between them.
        max_concurrent: workers at once on this provider; None is the lab's own cap (1 for `local`).
        request_throttle: whether the lab's `requestThrottle` holds here; None: where the protocol is `responses`.
        models: what its models can do, by exact model id.
        weights: local only: a catalog name, a path, or an address of a GGUF file.
        context_tokens: local only: the window the embedded server opens.
        threads: local only: processor threads; None lets the server choose.
        idle_s: local only: seconds without a request before the server stops.
    """

    protocol: Protocol | None = None
    base_url: Address | None = None
    api_key_env: EnvName | None = None
    headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict, repr=False)
    timeout_s: Seconds = Field(default=120.0, alias="timeoutSeconds")
    max_retries: Retries = 3
    max_wait_s: Seconds = Field(default=60.0, alias="maxWaitSeconds")
    max_concurrent: Whole | None = None
    request_throttle: Flag | None = None
    models: dict[Text, RouteSpec] = Field(default_factory=dict)
    weights: Text | None = None
    context_tokens: Whole = 8192
    threads: Whole | None = None
    idle_s: Seconds = Field(default=600.0, alias="idleSeconds")


class LogicalModelSpec(Spec):
    """A whole definition of a logical model: exactly these eight fields."""

    model: Name
    capability_rating: Rating
    effort: Effort
    cost_rating: Rating
    preferred_provider: Name
    providers: dict[Name, Text] = Field(min_length=1)
    guidelines: Text
    cautions: Text


class LogicalModelEdit(Spec):
    """Fields of a shipped definition that a project replaces."""

    capability_rating: Rating | None = None
    effort: Effort | None = None
    cost_rating: Rating | None = None
    preferred_provider: Name | None = None
    providers: dict[Name, Text] | None = Field(None, min_length=1)
    guidelines: Text | None = None
    cautions: Text | None = None


class ModelsSpec(Spec):
    """Edits of the shipped pool: `include` names the members to start from (None: all), `exclude` wins last."""

    include: list[Name] | None = None
    add: list[LogicalModelSpec] = Field(default_factory=list)
    replace: dict[Name, LogicalModelEdit] = Field(default_factory=dict)
    exclude: list[Name] = Field(default_factory=list)


class QueueSpec(Spec):
    """How many actions may wait, and how long; None is no limit."""

    depth: Count | None = None
    timeout_s: Seconds | None = Field(default=None, alias="timeoutSeconds")


class LimitsSpec(Spec):
    """What one action may use; None is no limit."""

    turns: Whole | None = None
    tokens: Whole | None = None
    tool_calls: Count | None = None
    seconds: Seconds | None = None
    usd: Money | None = None


class SpendSpec(Spec):
    """Dollars that may be spent; None is no cap."""

    usd: Money | None = None


class ScopesSpec(Spec):
    """Limits of every action, and spending caps of the session, the project and the day (UTC)."""

    thread: LimitsSpec = LimitsSpec()
    session: SpendSpec = SpendSpec()
    project: SpendSpec = SpendSpec()
    day: SpendSpec = SpendSpec()


class ThreadTypeSpec(Spec):
    """A type of thread that the project adds, or changes under its own name; absent keeps what it was.

    Attributes:
        approve: tools whose every call a person must approve, beside those of `tools.approve`.
        reads, writes: the memory its workers may read and write with their slate tools.
    """

    tools: list[Name] | None = None
    charter: Text | None = None
    model: Name | None = None
    limits: LimitsSpec = LimitsSpec()
    approve: list[Name] = Field(default_factory=list)
    slots: SlotsOf | None = None
    reads: list[TargetSpec] = Field(default_factory=list)
    writes: list[TargetSpec] = Field(default_factory=list)


class CompressorSpec(Spec):
    """Who writes episodes: the listed logical models in order (none: the worker's own), or a fixed form."""

    models: list[Name] = Field(default_factory=list)
    mode: Annotated[Literal["model", "fixed"], _word] = "model"
    max_output_tokens: Whole = 4096


class ReplaySpec(Spec):
    """Whether traffic is recorded and answered from the record; `file` is relative to the project."""

    mode: Annotated[Literal["off", "auto", "record", "replay"], _word] = "off"
    file: Text | None = None


class LabConfig(Spec):
    """The whole configuration of one lab."""

    default_model: Name | None = None
    max_concurrent: Whole = 8
    queue: QueueSpec = QueueSpec()
    limits: ScopesSpec = ScopesSpec()
    providers: dict[Name, ProviderSpec] = Field(default_factory=dict)
    request_throttle: ThrottleSpec = ThrottleSpec()
    routes: dict[Text, RoutePaceSpec] = Field(default_factory=dict)
    models: ModelsSpec = ModelsSpec()
    slates: list[SlateSpec] = Field(default_factory=list)
    ledger: LedgerSpec = LedgerSpec()
    thread_types: dict[Name, ThreadTypeSpec] = Field(default_factory=dict)
    runtime: RuntimeSpec = RuntimeSpec()
    slots: SlotsSpec = SlotsSpec()
    worker: WorkerSpec = WorkerSpec()
    compressor: CompressorSpec = CompressorSpec()
    tools: ToolsSpec = ToolsSpec()
    replay: ReplaySpec = ReplaySpec()
    durability: Annotated[Literal["normal", "full"], _word] = "normal"
    workspace: Text = "."
    worker_extensions: list[UnitPattern] = Field(default_factory=list)
    mcp_servers: dict[Name, McpSpec] = Field(default_factory=dict)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the file, for editors."""
    return LabConfig.model_json_schema(by_alias=True)
