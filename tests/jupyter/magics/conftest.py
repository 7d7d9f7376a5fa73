"""A shell in this process, a lab kept in memory, and the extension loaded into the shell."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from slate_lab import jupyter
from slate_lab.config import LabConfig
from slate_lab.errors import DispatchError
from slate_lab.records import Action, Call, Episode, Fact, Progress, Thread, ThreadState, episode_id


class MemoryHandle:
    """A handle that settles when it is told to, or when it is cancelled."""

    def __init__(self, id: str, action: Action) -> None:
        self.id, self.action = id, action
        self.state: ThreadState = "running"
        self.cancelled = 0
        self.steered: list[str] = []
        self._settled = threading.Event()
        self._episode: Episode | None = None

    @property
    def progress(self) -> Progress:
        return Progress(id=self.id, label=self.action.name or self.action.task[:40], state=self.state, turns=1)

    def settle(self) -> None:
        self.state = "successful"
        self._episode = Episode(id=episode_id(self.id), thread=self.id, task=self.action.task, intent="done")
        self._settled.set()

    def done(self) -> bool:
        return self._settled.is_set()

    def result(self, timeout: float | None = None) -> Episode:
        if not self._settled.wait(timeout):
            raise TimeoutError
        if self._episode is None:
            raise DispatchError.of("cancelled", "cancelled before anything was found")
        return self._episode

    def cancel(self, *, compress: bool = True) -> None:
        if not self.done():
            self.cancelled += 1
            self.state = "cancelled"
            self._settled.set()

    def steer(self, text: str) -> None:
        self.steered.append(text)


class MemoryLab:
    """A lab whose threads settle at once, unless `hold` is set."""

    def __init__(self, root: Path) -> None:
        self.root, self.hold, self.closed, self.refuse = root, False, False, None
        self.handles: list[MemoryHandle] = []

    config: Any = LabConfig()
    frames: Any = None
    slates: Any = None

    @property
    def actions(self) -> list[Action]:
        return [h.action for h in self.handles]

    def batch(self, actions: Sequence[Action]) -> list[MemoryHandle]:
        if self.refuse:
            raise self.refuse
        made = [MemoryHandle(f"t{len(self.handles) + 1 + i}", a) for i, a in enumerate(actions)]
        self.handles += made
        for handle in made:
            if not self.hold:
                handle.settle()
        return made

    def threads(self) -> list[Thread]:
        return [Thread(id=h.id, action=h.action, state=h.state) for h in self.handles]

    def episodes(self) -> list[Episode]:
        return [h._episode for h in self.handles if h._episode]

    def episode(self, id: str) -> Episode | None:
        return next((e for e in self.episodes() if e.id == id), None)

    def facts(self, id: str) -> list[Fact]:
        return [Fact(n=n, kind="text", text=f"fact {n}") for n in range(1, 6)]

    def calls(self, thread: str | None = None) -> list[Call]:
        return []

    def handle(self, id: str) -> MemoryHandle | None:
        return next((h for h in self.live() if h.id == id), None)

    def redispatch(self, id: str, **changes: Any) -> MemoryHandle:
        return self.handles[-1]

    def steer(self, id: str, text: str) -> None:
        next(h for h in self.handles if h.id == id).steer(text)

    def live(self) -> list[MemoryHandle]:
        return [h for h in self.handles if not h.done()]

    def approvals(self) -> list[Any]:
        return []

    def approve(self, id: str) -> list[Any]:
        return []

    def deny(self, id: str, why: str = "") -> list[Any]:
        return []

    def graph(self) -> str:
        return "graph"

    def budget(self, id: str | None = None) -> str:
        return f"budget {id}"

    def board(self) -> str:
        return "board"

    def verify(self) -> list[str]:
        return []

    def panel(self) -> str:
        return "panel"

    def replay(self, mode: str | None = None) -> dict[str, Any]:
        return {"mode": mode or "off"}

    def models(self) -> list[dict[str, Any]]:
        return [{"name": "local", "provider": "local"}, {"name": "careful", "provider": "openai"}]

    def status(self) -> dict[str, Any]:
        return {"project": self.root.name, "threads": len(self.handles)}

    def close(self, *, wait: bool = False) -> None:
        self.closed = True


class Notebook:
    """A shell with the extension, and every lab that was opened in it."""

    def __init__(self, ip: InteractiveShell, root: Path) -> None:
        self.labs: list[MemoryLab] = []
        self.root = root
        self.ip = ip
        jupyter.load(self.ip, self._open)

    def _open(self, path: str | Path = ".") -> MemoryLab:
        self.labs.append(MemoryLab(Path(path)))
        return self.labs[-1]

    @property
    def lab(self) -> MemoryLab:
        """The lab of the magic, opened if it was not."""
        if not self.labs:
            self.ip.run_line_magic("slate", f"open {self.root}")
        return self.labs[-1]

    def open(self) -> MemoryLab:
        """Open the lab, so that nothing is said about it later."""
        return self.lab

    def run(self, cell: str) -> Any:
        """The value of a cell; raises what the cell raised."""
        result = self.ip.run_cell(cell, silent=False)
        result.raise_error()
        return result.result


@pytest.fixture(scope="session")
def shell() -> Iterator[InteractiveShell]:
    """One shell for all tests: the extension leaves it as it was."""
    ip = InteractiveShell()
    ip.history_manager.enabled = False
    yield ip
    ip.history_manager.end_session()


@pytest.fixture
def notebook(shell: InteractiveShell, tmp_path: Path) -> Iterator[Notebook]:
    """The shell without variables, with the extension loaded."""
    for name in set(shell.user_ns) - set(shell.user_ns_hidden):
        del shell.user_ns[name]
    made = Notebook(shell, tmp_path)
    yield made
    jupyter.unload(shell)
