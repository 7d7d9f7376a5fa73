"""Lab: an opened project. It is opened and closed here; what it can do stands in `working`, `looking` and below."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from slate_lab.config import HeldBack, LabConfig, Trust, load_config
from slate_lab.errors import ConfigError
from slate_lab.lab.looking import Looking
from slate_lab.lab.rooms import Rooms
from slate_lab.lab.working import Working
from slate_lab.models.protocol import Model
from slate_lab.routing.policy import Policy
from slate_lab.slates import Hit, Slates, TargetLike, WriteResult
from slate_lab.slates.read import Order
from slate_lab.slates.write import Mode
from slate_lab.store import Store
from slate_lab.weave.conclude import interrupted
from slate_lab.weave.slotroom import Dispatch
from slate_lab.weave.units import Units

__all__ = ["Lab"]


class Lab(Working, Looking):
    """An opened project: configuration, store, models and dispatcher. Made by `Lab.open`, closed once."""

    def __init__(self, make: Callable[[Dispatch], Rooms]) -> None:
        self._rooms = make(Dispatch(self.athread, lambda task, **options: self.dispatch(task, **options).id))

    # what it is made of

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self._rooms.root

    @property
    def config(self) -> LabConfig:
        """The configuration in force."""
        return self._rooms.config

    @property
    def policy(self) -> Policy:
        """The logical models, resolved and frozen."""
        return self._rooms.policy

    @property
    def store(self) -> Store:
        """Everything that is kept."""
        return self._rooms.store

    @property
    def slates(self) -> Slates:
        """Declared memory."""
        return self._rooms.slates

    @property
    def units(self) -> Units:
        """Units that bring tools to workers."""
        return self._rooms.units

    @property
    def trust(self) -> Trust:
        """What the project may bring."""
        return self._rooms.trust

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know of this opening."""
        return self._rooms.warnings

    @property
    def starting(self) -> tuple[str, float | None]:
        """What the embedded model does before its first answer, and how far it is."""
        return self._rooms.starting

    @classmethod
    def open(
        cls,
        path: str | Path = ".",
        *,
        store: str | Path | None = None,
        config: Mapping[str, Any] | None = None,
        models: Model | Mapping[str, Model] | None = None,
        env: Mapping[str, str] | None = None,
        clock: Callable[[], int] = time.time_ns,
        trust: bool | None = None,
    ) -> Lab:
        """Open the project in the folder `path`.

        Args:
            path: the project; `slate.yaml` is read from it if it is there.
            store: the database, default `<path>/.slate/slate.db`; `":memory:"` keeps nothing.
            config: a mapping merged over `slate.yaml`.
            models: one model that answers every route, or models by logical name or by exact route
                (`openai/gpt-6-luna`).
            env: where keys are found, default the process's environment.
            clock: nanoseconds since the epoch.
            trust: True lets everything the project brings count for this opening, False nothing; None asks the record
                of `slate-lab trust`. What is held back is a `HeldBack` warning; `config` always counts.

        Raises:
            ConfigError: the folder is not there, or the configuration has problems (all of them are listed).
            StoreError: the store cannot be opened.
        """
        env = os.environ if env is None else env
        root = Path(path).expanduser().resolve()
        trusted = Trust.of(root, vouched=trust)
        try:
            loaded = load_config(root, overrides=_overrides(config, env), trust=trusted)
            policy = Policy.resolve(loaded.config, places=loaded.places)
        except ConfigError as e:
            raise trusted.explained(e) from None
        if trusted.warning:
            warnings.warn(trusted.warning, HeldBack, stacklevel=2)
        where = store if store is not None else root / ".slate" / "slate.db"
        opened = Store.open(
            ":memory:" if str(where) == ":memory:" else Path(where),
            clock=clock,
            durability=loaded.config.durability,
            interrupted=interrupted,
        )
        try:
            return cls(
                lambda dispatch: Rooms(
                    root,
                    policy=policy,
                    trust=trusted,
                    store=opened,
                    models=models,
                    env=env,
                    notes=(*loaded.warnings, *filter(None, (trusted.warning,))),
                    clock=clock,
                    dispatch=dispatch,
                )
            )
        except BaseException:
            opened.close()
            raise

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(wait=kind is None)

    def __repr__(self) -> str:
        state = "closed" if self._rooms.closed else f"{len(self._rooms.dispatcher.live())} live"
        return f"<Lab {self.root.name} {state}>"

    def close(self, *, wait: bool = False) -> None:
        """Close admission, cancel what runs (or wait for it), then close models and store. A second call does nothing.

        Args:
            wait: let what was dispatched come to its end first.
        """
        self._rooms.close(wait=wait)

    # memory

    def write(
        self,
        target: TargetLike,
        content: str,
        *,
        mode: Mode = "append",
        key: str | None = None,
        tags: Mapping[str, Any] | None = None,
        gated: bool = False,
    ) -> WriteResult:
        """Write to a file of a slate, `Title/folder/file.md`; see `Slates.write`.

        Raises:
            SlateWriteRefused: refused, and `gated`; else a refusal is the code of the result.
        """
        return self.slates.write(target, content, mode=mode, key=key, tags=tags, gated=gated)

    def read(
        self,
        target: TargetLike,
        *,
        max_tokens: int | None = None,
        order: Order = "oldest",
        where: Mapping[str, Any] | None = None,
        fallback: str | None = None,
    ) -> str:
        """The text of a file or folder of a slate; in an LRU folder, exactly what is returned is touched.

        Raises:
            SlateError: no such slate, folder or tag; no such file and no fallback.
        """
        return self.slates.read(target, max_tokens=max_tokens, order=order, where=where, fallback=fallback).text

    def peek(self, target: TargetLike) -> str:
        """The whole text of a file or folder of a slate; touches nothing."""
        return self.slates.peek(target).text

    def search(self, text: str, *, slate: str | None = None, folder: str | None = None, limit: int = 20) -> list[Hit]:
        """Live blocks of slates that hold every word of `text`, best first; touches nothing."""
        return self.slates.search(text, slate=slate, folder=folder, limit=limit)


def _overrides(config: Mapping[str, Any] | None, env: Mapping[str, str]) -> dict[str, Any]:
    """What is merged over the files: `SLATE_LAB_REPLAY` sets replay.mode, so that a notebook is recorded unchanged."""
    merged = dict(config or {})
    if mode := env.get("SLATE_LAB_REPLAY"):
        merged["replay"] = {**merged.get("replay", {}), "mode": mode}
    return merged
