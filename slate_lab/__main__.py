"""The `slate-lab` program: the verbs of the magic for a shell.

Results go to standard output, everything else to standard error. Ends with 0 when it is done, 1 when it was refused or
failed, 2 when it was used wrongly, 130 after Ctrl-C.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slate_lab.errors import LabError
from slate_lab.verbs.parser import Asked, help_text, parse
from slate_lab.verbs.words import WrongUsage, check_typography

if TYPE_CHECKING:
    from slate_lab.lab import Lab
    from slate_lab.records import Episode

__all__ = ["main"]

_GLOBAL = ("--json", "--project")
UNAVAILABLE = 3
"""The embedded model, or its weights, cannot be had here."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. `argv` is the command line without the program's name."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _command(words)
        sys.stdout.flush()
        return code
    except WrongUsage as error:
        return _say(error, 2)
    except LabError as error:
        codes = {"interrupted": 130, "model_unavailable": UNAVAILABLE}
        return _say(error, codes.get(error.code, 1))
    except KeyboardInterrupt:
        return 130
    except OSError as error:  # the reader went away, as `head` does, or standard output is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"slate-lab: {error.strerror or error}", file=sys.stderr)
        return 1


def _say(error: LabError, code: int) -> int:
    from slate_lab.verbs.text import one_line

    print(f"slate-lab: {one_line(error.message)}", file=sys.stderr)
    return code


def _command(words: list[str]) -> int:
    if words == ["--version"]:
        from slate_lab import __version__

        print(f"slate-lab {__version__}")
        return 0
    check_typography(words)
    asked = parse(_command_first(words), "program")
    if asked.command.name == "help":
        print(help_text("program", asked["command"]))
        return 0
    return _RUN.get(asked.command.name, _verb)(asked)


def _command_first(words: list[str]) -> list[str]:
    """`--project DIR` and `--json` before the command are moved behind it."""
    moved: list[str] = []
    rest = list(words)
    while rest and rest[0].partition("=")[0] in _GLOBAL:
        moved.append(rest.pop(0))
        if moved[-1] == "--project" and rest:
            moved.append(rest.pop(0))
    return [*rest[:1], *moved, *rest[1:]]


def _root(asked: Asked) -> Path:
    return Path(asked["path"] or asked["project"] or ".").expanduser()


def _write(asked: Asked, value: Any, text: Callable[[], str]) -> None:
    from slate_lab.verbs.text import json_text

    written = json_text(value) if asked["json"] else text()
    if written:
        sys.stdout.buffer.write(f"{written}\n".encode("utf-8", "backslashreplace"))


def _opened(asked: Asked) -> Lab:
    from slate_lab.lab import Lab

    root = _root(asked)
    kept = _keeps(asked) or (root / ".slate" / "slate.db").exists()
    with warnings.catch_warnings():  # they are told below, each on one line
        warnings.simplefilter("ignore")
        lab = Lab.open(root, store=None if kept else ":memory:")  # looking at a folder leaves nothing in it
    for warning in lab.warnings:
        print(f"slate-lab: warning: {warning}", file=sys.stderr)
    return lab


def _keeps(asked: Asked) -> bool:
    """Whether the command adds something, so that a project that has no store yet gets one."""
    name = asked.command.name
    return name in ("thread", "ask") or (name == "slate" and asked["action"] == "write")


def _verb(asked: Asked) -> int:
    from slate_lab.verbs.run import run
    from slate_lab.verbs.text import text_of

    with _opened(asked) as lab:
        result = run(asked, lab)
        _write(asked, result, lambda: text_of(result))
    return 0


def _store(asked: Asked) -> int:
    from slate_lab.verbs.run import run

    with _opened(asked) as lab:
        found = run(asked, lab)
        _write(asked, found, lambda: "\n".join(found["problems"]) or "nothing is wrong with the store")
    return 0 if found["ok"] else 1


def _thread(asked: Asked) -> int:
    from slate_lab.verbs.follow import NoView, follow, view_of
    from slate_lab.verbs.text import episode_text
    from slate_lab.verbs.values import action_of

    if asked["task"] == "-":
        asked.values["task"] = sys.stdin.read()
    action = action_of(asked, body=None, names={})
    view = NoView() if asked["quiet"] else view_of(sys.stderr)
    lab = _opened(asked)
    try:
        episode: Episode = follow(lambda: lab.batch([action])[0], view)
        _write(asked, episode, lambda: episode_text(episode))
    finally:
        lab.close()
    return 0 if episode.status == "ok" else 1


def _ask(asked: Asked) -> int:
    from slate_lab.records import Delivery
    from slate_lab.verbs.slotting import ask, told

    if asked["prompt"] == "-":
        asked.values["prompt"] = sys.stdin.read()

    def live(delivery: Delivery) -> None:
        if line := told(delivery):
            print(line, file=sys.stderr, flush=True)

    with _opened(asked) as lab:
        turn = ask(asked, lab, body=None, live=live)
        _write(asked, turn, lambda: turn.text)
    return 0


def _retry(asked: Asked) -> int:
    from slate_lab.verbs.follow import NoView, follow, view_of
    from slate_lab.verbs.text import episode_text
    from slate_lab.verbs.values import changes_of, thread_ids

    (id,) = thread_ids([asked["id"]], {})[:1]
    changes, view = changes_of(asked), NoView() if asked["quiet"] else view_of(sys.stderr)
    lab = _opened(asked)
    try:
        episode: Episode = follow(lambda: lab.redispatch(id, **changes), view)
        _write(asked, episode, lambda: episode_text(episode))
    finally:
        lab.close()
    return 0 if episode.status == "ok" else 1


def _init(asked: Asked) -> int:
    from slate_lab.verbs.run import init

    written = init(asked, root=_root(asked))
    _write(asked, written, lambda: "\n".join(written))
    return 0


def _trust(asked: Asked) -> int:
    from slate_lab.verbs.text import text_of
    from slate_lab.verbs.trusting import trust

    result = trust(asked, root=_root(asked))
    _write(asked, result, lambda: text_of(result))
    return 0


def _check(asked: Asked) -> int:
    from slate_lab.verbs.run import check

    report = check(_root(asked))
    _write(asked, report, lambda: "" if report["problems"] else f"no problems in {report['root']}")
    for warning in report["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    for problem in report["problems"] if not asked["json"] else ():
        print(problem["text"], file=sys.stderr)
    return 0 if report["ok"] else 1


def _slots(asked: Asked) -> int:
    from slate_lab.verbs.slotting import listing_of, listing_text

    with _opened(asked) as lab:
        listing = listing_of(asked, lab)
        _write(asked, listing, lambda: listing_text(listing))
    return 1 if listing.faults else 0


def _config(asked: Asked) -> int:
    from slate_lab.verbs.run import schema
    from slate_lab.verbs.text import json_text

    if not asked["schema"]:
        return _verb(asked)
    _write(asked, schema(), lambda: json_text(schema()))
    return 0


def _models(asked: Asked) -> int:
    if asked["get"] is None:
        return _verb(asked)
    from slate_lab.models.weights import get_weights

    line = _FetchLine()
    try:
        weights = get_weights(asked["name"] or _own_weights(_root(asked)), progress=line.show)
    finally:
        line.end()
    _write(asked, weights, lambda: f"{weights.path} ({weights.source})")
    return 0


def _own_weights(root: Path) -> str:
    """The weights of the project's embedded model."""
    from slate_lab.config import Trust, load_config
    from slate_lab.models.catalog import LOCAL_MODEL
    from slate_lab.routing.policy import Policy

    spec = Policy.resolve(load_config(root, trust=Trust.of(root)).config).providers.get("local")
    return (spec.weights if spec else None) or LOCAL_MODEL


def _demo(asked: Asked) -> int:
    from slate_lab.reports.demo import run_demo

    path = run_demo(Path(asked["out"] or ".").expanduser(), line=lambda text: print(text, file=sys.stderr))
    print(f"open {path} in a browser", file=sys.stderr)
    print(path)
    return 0


class _FetchLine:
    """How far a download is: a line rewritten in place if standard error is a terminal, else nothing."""

    def __init__(self) -> None:
        self._width = 0

    def show(self, text: str, share: float | None) -> None:
        """Rewrite the line."""
        if sys.stderr.isatty():
            line = text if share is None else f"{text} {100 * share:.0f}%"
            print(f"\r{line:<{self._width}}", end="", file=sys.stderr, flush=True)
            self._width = len(line)

    def end(self) -> None:
        """Leave the line."""
        if self._width:
            print(file=sys.stderr)


_RUN: dict[str, Callable[[Asked], int]] = {
    "thread": _thread,
    "retry": _retry,
    "ask": _ask,
    "init": _init,
    "trust": _trust,
    "check": _check,
    "slots": _slots,
    "store": _store,
    "config": _config,
    "models": _models,
    "demo": _demo,
}

if __name__ == "__main__":
    sys.exit(main())
