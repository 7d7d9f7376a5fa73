"""A kernel that works and says what it was told: one line on stdout after each thing it saw acknowledged.

    python -m tests.drill.child PROJECT NAME COUNT PERMITS COMPRESSOR

Lines: `queued t7 NAME-3` when a dispatch returned, `fact NAME-3 2` when the worker was shown its second tool result,
`settled t7 HASH CALLS` when the episode was given, `refused CODE` when a dispatch or an action failed, `end` at last.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import slate_lab as sl
from slate_lab.errors import LabError
from slate_lab.records import Reply, Request

OWN = {"protocol": "chat", "baseUrl": "http://127.0.0.1:9/v1", "models": {"own": {"price": {"input": 1, "output": 2}}}}
TURNS = 2


def say(*words: object) -> None:
    """One line, written at once and whole."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def answer(request: Request) -> Any:
    """Two looks at a file, then an answer; what it is shown, it was told."""
    if request.schema is not None:
        record = {"intent": "look", "actions_taken": ["read"], "handoff_notes": "on"}
        return json.dumps({**record, "key_findings": [], "open_issues": []})
    seen = [m for m in request.messages if m.role == "tool"]
    name = next(m.text for m in request.messages if m.role == "user").split()[-1]
    if seen:
        say("fact", name, len(seen))
    if len(seen) < TURNS:
        return {"tool": "read", "args": {"path": "notes/a.md", "start": 1 + len(seen)}}
    return f"{name}: the error rate rose to 7.5 % at 09:16."


class Priced:
    """The scripted model as a user's own object, so that its calls have a price."""

    def __init__(self) -> None:
        self._model = sl.ScriptedModel(answer)
        self.capabilities = self._model.capabilities

    async def reply(self, request: Request, *, on_delta: Any = None) -> Reply:
        """As the script says."""
        return await self._model.reply(request, on_delta=on_delta)

    async def aclose(self) -> None:
        """Nothing to release."""


def config_of(permits: int, compressor: str) -> dict[str, Any]:
    """The configuration of a child."""
    return {"maxConcurrent": permits, "compressor": {"mode": compressor}, "providers": {"own": OWN}}


async def work(lab: sl.Lab, name: str, count: int) -> None:
    """Dispatch `count` actions and wait for each."""

    async def settle(handle: sl.Handle) -> None:
        try:
            episode = await handle
        except LabError as error:
            say("refused", error.code)
        else:
            say("settled", handle.id, episode.hash, len(lab.calls(handle.id)))

    waiting = []
    for number in range(count):
        try:
            handle = lab.dispatch(f"Look at the notes: {name}-{number}", type="researcher")
        except LabError as error:
            say("refused", error.code)
            continue
        say("queued", handle.id, f"{name}-{number}")
        waiting.append(asyncio.ensure_future(settle(handle)))
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)


def main() -> None:
    """Open, work, close."""
    project, name, count, permits, compressor = sys.argv[1:]
    with sl.Lab.open(project, models=Priced(), config=config_of(int(permits), compressor), env={}) as lab:
        asyncio.run(work(lab, name, int(count)))
    say("end")


if __name__ == "__main__":
    main()
