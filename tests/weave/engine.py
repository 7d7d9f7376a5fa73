"""The engine on the test's own loop: a dispatcher and a runner without the lab's thread, so that every step is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from slate_lab.config import LabConfig, Trust
from slate_lab.models.gate import Gate
from slate_lab.models.prices import PriceBook
from slate_lab.models.protocol import Model
from slate_lab.routing.policy import Policy
from slate_lab.routing.shelf import Shelf
from slate_lab.store import Store
from slate_lab.weave.approval import Desk
from slate_lab.weave.brief import seeded_fence
from slate_lab.weave.dispatch import Dispatcher
from slate_lab.weave.functions import Functions
from slate_lab.weave.handle import Handle
from slate_lab.weave.intake import action_of
from slate_lab.weave.mcp import Servers
from slate_lab.weave.purse import Purse
from slate_lab.weave.run import Runner
from slate_lab.weave.toolbox import Toolbox
from slate_lab.weave.tools import BUILT_IN, Tool
from slate_lab.weave.tools.workspace import Workspace
from slate_lab.weave.units import Units


class Ticks:
    """A clock that moves by one with every look."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 1
        return self.now


class Engine:
    """A dispatcher on the running loop; `tools` join the built-in ones, `config` are keys of slate.yaml."""

    def __init__(
        self,
        root: Path,
        model: Model,
        *,
        store: Store | None = None,
        tools: Mapping[str, Tool] | None = None,
        toolbox: type[Toolbox] = Toolbox,
        clock: Callable[[], int] | None = None,
        **config: Any,
    ) -> None:
        clock = clock or Ticks()
        policy = Policy.resolve(LabConfig.model_validate(config))
        self.config = policy.config
        self.store = store or Store.open(":memory:", clock=clock)
        shelf = Shelf(policy, env={}, given=model, progress=lambda text, share: None)
        prices = PriceBook.from_config(policy.config)
        trust = Trust.of(root)
        servers = Servers({}, root=root, env={})
        box = toolbox({**BUILT_IN, **(tools or {})}, Units(trust), Functions(trust, ()), servers)
        purse = Purse(self.store, policy.config.limits, prices, clock=clock)
        runner = Runner(
            store=self.store,
            purse=purse,
            gate=Gate(prices, clock=clock),
            routes=shelf,
            config=policy.config,
            workspace=Workspace(root),
            nonce=seeded_fence,
            toolbox=box,
            desk=Desk(self.store, seconds=policy.config.tools.approve_s),
        )
        self.dispatcher = Dispatcher(
            loop=asyncio.get_running_loop(),
            root=root,
            store=self.store,
            routes=shelf,
            runner=runner,
            config=policy.config,
            clock=clock,
            nonce=seeded_fence,
            priced=lambda route: True,
            purse=purse,
            tools=box,
        )

    def dispatch(self, task: str, **options: Any) -> Handle:
        """Dispatch an action; nothing runs before the test awaits."""
        return self.dispatcher.dispatch(action_of(task, **options))

    async def settled(self) -> None:
        """Wait until everything has left."""
        await self.dispatcher.settled()


async def steps(n: int) -> None:
    """Let the loop go round `n` times."""
    for _ in range(n):
        await asyncio.sleep(0)
