"""The configuration: `slate.yaml`, read strictly, merged, validated, every value with its place.

In: a project's root. Out: a frozen `LabConfig` (see `schema`), or one `ConfigError` with all problems. Nothing here
opens a connection or reads a key; keys stay in the environment and are only named.
"""

from __future__ import annotations

from slate_lab.config.load import Loaded, load_config, nearest_place
from slate_lab.config.memory import FileSpec, FolderSpec, LedgerSpec, MetatagSpec, SlateSpec, TargetSpec
from slate_lab.config.pacing import RoutePaceSpec, ThrottleSpec
from slate_lab.config.schema import (
    EFFORTS,
    CompressorSpec,
    LabConfig,
    LimitsSpec,
    LogicalModelEdit,
    LogicalModelSpec,
    ModelsSpec,
    PriceSpec,
    ProviderSpec,
    QueueSpec,
    ReplaySpec,
    RouteSpec,
    RuntimeSpec,
    ScopesSpec,
    SlotsSpec,
    SpendSpec,
    ThreadTypeSpec,
    ToolsSpec,
    WorkerSpec,
    json_schema,
)
from slate_lab.config.servers import McpSpec
from slate_lab.config.starter import starter_files, write_starter
from slate_lab.config.trust import HeldBack, Trust

__all__ = [
    "EFFORTS",
    "CompressorSpec",
    "FileSpec",
    "FolderSpec",
    "HeldBack",
    "LabConfig",
    "LedgerSpec",
    "LimitsSpec",
    "Loaded",
    "LogicalModelEdit",
    "LogicalModelSpec",
    "McpSpec",
    "MetatagSpec",
    "ModelsSpec",
    "PriceSpec",
    "ProviderSpec",
    "QueueSpec",
    "ReplaySpec",
    "RoutePaceSpec",
    "RouteSpec",
    "RuntimeSpec",
    "ScopesSpec",
    "SlateSpec",
    "SlotsSpec",
    "SpendSpec",
    "TargetSpec",
    "ThreadTypeSpec",
    "ThrottleSpec",
    "ToolsSpec",
    "Trust",
    "WorkerSpec",
    "json_schema",
    "load_config",
    "nearest_place",
    "starter_files",
    "write_starter",
]
