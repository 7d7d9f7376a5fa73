"""slate_lab: bounded threads, episodes by reference, measured context, in a notebook.

    import slate_lab as sl
    with sl.Lab.open() as lab:
        episode = lab.thread("Read notes/a.md and report which deploy caused the errors.")
        later = lab.thread("What follows from it?", context=[episode])

In a notebook: `%load_ext slate_lab`, then `%slate help`. Importing is light: the rooms are opened when they are used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slate_lab import errors
    from slate_lab.lab import Lab
    from slate_lab.models.scripted import ScriptedModel
    from slate_lab.records import Action, Episode, Fact, Limits, Progress, Thread, Usage
    from slate_lab.weave.handle import Handle
    from slate_lab.weave.limit import limit
    from slate_lab.weave.units import Unit

__version__ = "0.1.0"

__all__ = [
    "Action",
    "Episode",
    "Fact",
    "Handle",
    "Lab",
    "Limits",
    "Progress",
    "ScriptedModel",
    "Thread",
    "Unit",
    "Usage",
    "__version__",
    "errors",
    "limit",
    "load_ipython_extension",
    "unload_ipython_extension",
]

_HOMES = {
    "Action": "slate_lab.records",
    "Episode": "slate_lab.records",
    "Fact": "slate_lab.records",
    "Handle": "slate_lab.weave.handle",
    "Lab": "slate_lab.lab",
    "Limits": "slate_lab.records",
    "Progress": "slate_lab.records",
    "ScriptedModel": "slate_lab.models.scripted",
    "Thread": "slate_lab.records",
    "Unit": "slate_lab.weave.units",
    "Usage": "slate_lab.records",
    "limit": "slate_lab.weave.limit",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("slate_lab.errors")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'slate_lab' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(ip: Any) -> None:
    """`%load_ext slate_lab`: register the magics; loading twice changes nothing."""
    from slate_lab import jupyter

    jupyter.load(ip, open_lab=_open)


def _open(path: Any = ".") -> Lab:
    """`Lab.open`, its room loaded when a lab is first opened."""
    from slate_lab.lab import Lab

    return Lab.open(path)


def unload_ipython_extension(ip: Any) -> None:
    """`%unload_ext slate_lab`: close the lab and remove the magics."""
    from slate_lab import jupyter

    jupyter.unload(ip)
