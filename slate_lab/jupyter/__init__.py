"""The notebook's side: the `%slate` magic, completion, live output and views. The only room that knows IPython.

`load` and `unload` are what `%load_ext slate_lab` and `%unload_ext slate_lab` call. Nothing is imported here before it
is used, so that a view can be imported without the magics and the other way round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from slate_lab.verbs.door import OpenLab

__all__ = ["load", "unload"]


def load(ip: InteractiveShell, open_lab: OpenLab) -> None:
    """Add the magic, its completion and the displays of records to `ip`; a second call changes nothing."""
    from slate_lab.jupyter.extension import load_into

    load_into(ip, open_lab)


def unload(ip: InteractiveShell) -> None:
    """Take everything out of `ip` again and close the lab that the magic opened."""
    from slate_lab.jupyter.extension import unload_from

    unload_from(ip)
