"""What `%load_ext slate_lab` puts into a shell, and takes out again."""

from __future__ import annotations

import atexit
from functools import partial

from IPython.core.interactiveshell import InteractiveShell

from slate_lab.jupyter import show, verbatim
from slate_lab.jupyter.complete import matcher_of
from slate_lab.jupyter.magics import SlateMagics
from slate_lab.verbs.door import OpenLab

__all__ = ["load_into", "unload_from"]

_NAME = "SlateMagics"


def load_into(ip: InteractiveShell, open_lab: OpenLab) -> None:
    """Register the magic, the verbatim input, the completer and the displays, once."""
    if _loaded(ip) is not None:
        return
    magics = SlateMagics(ip, open_lab)
    ip.register_magics(magics)
    magics.on_unload(partial(_forget_magic, ip))
    magics.on_unload(verbatim.install(ip))
    magics.on_unload(show.install(ip, magics.ticker, magics.publish))
    if ip.Completer is not None:
        matcher = matcher_of(magics)
        ip.Completer.custom_matchers.append(matcher)
        magics.on_unload(partial(ip.Completer.custom_matchers.remove, matcher))
    atexit.register(magics.close)
    magics.on_unload(partial(atexit.unregister, magics.close))


def unload_from(ip: InteractiveShell) -> None:
    """Undo `load_into`; nothing happens if it was not loaded."""
    magics = _loaded(ip)
    if magics is not None:
        magics.unload()


def _loaded(ip: InteractiveShell) -> SlateMagics | None:
    found = ip.magics_manager.registry.get(_NAME)
    return found if isinstance(found, SlateMagics) else None


def _forget_magic(ip: InteractiveShell) -> None:
    for kind in ("line", "cell"):
        ip.magics_manager.magics[kind].pop("slate", None)
    ip.magics_manager.registry.pop(_NAME, None)
