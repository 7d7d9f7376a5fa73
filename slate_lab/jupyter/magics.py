"""`%slate` and `%%slate`: words to a verb, the verb to the lab, the result to the cell; mendable errors on one line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from slate_lab.errors import LabError
from slate_lab.jupyter.live import CellView, Ticker, is_kernel, publisher
from slate_lab.jupyter.show import shown
from slate_lab.jupyter.turns import Deliveries
from slate_lab.records import Delivery
from slate_lab.verbs.door import Door, OpenLab
from slate_lab.verbs.follow import NoView, View, follow, view_of, wait_all
from slate_lab.verbs.memory import write
from slate_lab.verbs.parser import Asked, help_text, parse
from slate_lab.verbs.run import init, run, schema
from slate_lab.verbs.text import one_line, text_of
from slate_lab.verbs.trusting import trust
from slate_lab.verbs.values import action_of, changes_of, thread_ids, variable
from slate_lab.verbs.words import WrongUsage, split

__all__ = ["SlateMagics"]

_NONE = {
    "threads": "no threads",
    "episode": "no episodes",
    "facts": "no facts",
    "approvals": "no call waits for approval",
    "slates": "no slates: declare them under `slates:` in slate.yaml",
    "search": "no block holds that",
    "evicted": "nothing has left",
}


@magics_class
class SlateMagics(Magics):
    """The magic and the lab it works on."""

    def __init__(self, shell: InteractiveShell, open_lab: OpenLab) -> None:
        super().__init__(shell)
        self.ip = shell
        self.door: Door | None = None
        self.publish = publisher(shell)
        self.ticker = Ticker(self.publish)
        self._open_lab = open_lab
        self._owned = False
        self._undo: list[Callable[[], object]] = []

    @no_var_expand
    @line_cell_magic
    def slate(self, line: str, cell: str | None = None) -> Any:
        """Work with the lab."""
        try:
            return self._do(parse(split(line), "magic"), cell)
        except LabError as error:
            raise UsageError(one_line(error.message)) from error

    slate.__doc__ = help_text("magic")

    def _do(self, asked: Asked, body: str | None) -> Any:
        name = asked.command.name
        if body is not None and not asked.command.body and name != "help":
            raise WrongUsage(f"{name} takes no cell body: write %slate {name} with one %")
        match name:
            case "help":
                return say(help_text("magic", asked["command"]))
            case "open":
                return self._open(asked["path"])
            case "init":
                root = self.door.root if self.door else Path.cwd()
                return say("\n".join(f"wrote {path}" for path in init(asked, root=root)))
            case "trust":
                return self._trust(asked)
            case "config" if asked["schema"]:
                return shown(schema())
            case "thread":
                return self._thread(asked, body)
            case "retry":
                return self._retry(asked)
            case "ask":
                return self._ask(asked, body)
            case "slots":
                return self._slots(asked)
            case "slot":
                return self._slot(asked, body)
            case "wait":
                return self._wait(asked["timeout"])
            case "graph":
                return self._graph()
            case "write":
                return shown(write(asked, self.lab(), body=body))
            case "panel":
                return self.lab().panel()
            case "cost" if asked["by"] is None:
                return self.lab().board()
            case "budget":
                ids = thread_ids([asked["id"]], self.ip.user_ns) if asked["id"] else [None]
                return self.lab().budget(ids[0])
        result = run(asked, self.lab(), names=self.ip.user_ns)
        return self._said(name, result)

    def _said(self, name: str, result: Any) -> Any:
        if name == "cancel":
            return say(f"cancelling {', '.join(result)}" if result else "nothing to cancel: all of that has settled")
        if name == "steer":
            return say(f"{result} is told before its next call")
        if isinstance(result, list) and not result and name in _NONE:
            return say(_NONE[name])
        if name in ("approvals", "approve", "deny"):
            return say(text_of(result))
        return shown(result)

    # the lab

    def lab(self) -> Door:
        """The lab, opened in the current folder if none is open yet."""
        if self.door is None:
            self.door, self._owned = self._open_lab(Path.cwd()), True
            self.ip.user_ns["lab"] = self.door
            say(f"opened the lab at {self.door.root} as `lab` (%slate open PATH for another)")
        return self.door

    def _open(self, path: str | None) -> Door:
        given = variable(path, self.ip.user_ns) if path and path.startswith("$") else None
        if given is not None and not isinstance(given, Door):
            raise WrongUsage(f"{path} holds no lab: `lab = slate_lab.Lab.open(...)` makes one")
        running = len(self.door.live()) if self.door is not None and self._owned else 0
        if running and given is not self.door:
            assert self.door is not None
            raise WrongUsage(
                f"{running} still running in the lab at {self.door.root}: %slate wait or %slate cancel all first"
            )
        opened = given if given is not None else self._open_lab(Path(path or "."))
        if opened is not self.door:
            self.close()
        self.door, self._owned = opened, given is None
        if given is None:
            self.ip.user_ns["lab"] = opened
        return opened

    def _trust(self, asked: Asked) -> Any:
        root = self.door.root if self.door else Path.cwd()
        told = trust(asked, root=root)
        if self.door is not None and not asked["show"] and told["project"] == str(root):
            if self._owned and not self.door.live():
                self._open(str(root))
            else:
                say("open the lab again for this to hold in it")
        return shown(told)

    def close(self) -> None:
        """Close the lab that the magic opened; one that a variable holds is only let go."""
        self.ticker.stop()
        door, owned = self.door, self._owned
        self.door, self._owned = None, False
        if door is not None and owned:
            door.close()

    # threads

    def _thread(self, asked: Asked, body: str | None) -> Any:
        action = action_of(asked, body=body, names=self.ip.user_ns)
        door = self.lab()
        if asked["background"]:
            return door.batch([action])[0]
        return follow(lambda: door.batch([action])[0], self._view(quiet=asked["quiet"]))

    def _retry(self, asked: Asked) -> Any:
        (id,) = thread_ids([asked["id"]], self.ip.user_ns)[:1]
        changes, door = changes_of(asked), self.lab()
        if asked["background"]:
            return door.redispatch(id, **changes)
        return follow(lambda: door.redispatch(id, **changes), self._view(quiet=asked["quiet"]))

    def _ask(self, asked: Asked, body: str | None) -> Any:
        from slate_lab.verbs.slotting import ask

        door, live = self.lab(), Deliveries(self.publish)
        return ask(asked, door, body=body, live=live if is_kernel(self.ip) else _tell)

    def _slot(self, asked: Asked, body: str | None) -> None:
        from slate_lab.verbs.slotting import make_slot

        door = self.lab()
        written = make_slot(asked, root=door.root, config=door.config, body=body)
        say("\n".join(f"wrote {path.relative_to(door.root)}" for path in written) or "nothing changed")

    def _slots(self, asked: Asked) -> Any:
        from slate_lab.jupyter.slots import SlotsView
        from slate_lab.verbs.slotting import listing_of, listing_text

        listing = listing_of(asked, self.lab())
        if not is_kernel(self.ip) or listing.surface is None:
            return say(listing_text(listing))
        return SlotsView(listing, checked=bool(asked["check"]))

    def _view(self, *, quiet: bool) -> View:
        if quiet:
            return NoView()
        return CellView(self.publish) if is_kernel(self.ip) else view_of(sys.stderr)

    def _wait(self, timeout: str | None) -> None:
        seconds = None if timeout is None else _seconds(timeout)
        door = self.lab()
        left = wait_all(lambda: len(door.live()), timeout=seconds)
        self.ticker.settle()
        say(f"{left} still running" if left else "everything has settled")

    def _graph(self) -> Any:
        door = self.lab()
        graph = door.graph()
        if is_kernel(self.ip) and not graph.settled:
            graph.follow(lambda: (door.threads(), door.episodes()))
        return graph

    # leaving

    def on_unload(self, undo: Callable[[], object]) -> None:
        """Something to take back when the extension is unloaded."""
        self._undo.append(undo)

    def unload(self) -> None:
        """Take everything back, last first, and close the lab."""
        while self._undo:
            self._undo.pop()()
        self.close()


def _tell(delivery: Delivery) -> None:
    """A delivery in a shell that is no kernel; texts are shown by the turn itself."""
    from slate_lab.verbs.slotting import told

    if line := told(delivery):
        say(line)


def say(text: str) -> None:
    """Print to the cell."""
    sys.stdout.write(f"{text}\n")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise WrongUsage(f"--timeout {text}: give seconds, 0 or more")
    return seconds
