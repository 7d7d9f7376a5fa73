"""Completion of `%slate` lines: commands, options, and what an option takes.

Python cells and task bodies are left alone. Nothing is opened by completing: without a lab only what is known
without one is offered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from slate_lab.errors import LabError
from slate_lab.records import Episode, Thread
from slate_lab.verbs.door import Handle
from slate_lab.verbs.table import FRAMES, LIMITS, TOOLS, TYPES, Command, Option, commands

if TYPE_CHECKING:
    from slate_lab.jupyter.magics import SlateMagics

__all__ = ["matcher_of", "wanted"]

_LINE = re.compile(r"\s*(?:[\w.\[\], ]+=\s*)?%slate[ \t]+(?P<rest>.*)", re.DOTALL)
_CELL = re.compile(r"%%slate[ \t]+(?P<rest>.*)", re.DOTALL)
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_MOST = 200

Offers = Callable[[str], Iterable[str]]
"""The values of a kind (`type`, `episode`, ...)."""


def matcher_of(magics: SlateMagics) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """The matcher of one shell; it looks at the lab of the magic if one is open."""

    @context_matcher(identifier="slate_lab")  # type: ignore[untyped-decorator,unused-ignore]
    def slate_matcher(context: CompletionContext) -> SimpleMatcherResult:
        before = _typed(context)
        found = wanted(before, lambda kind: _offers(magics, kind)) if before is not None else None
        if not found:
            return {"completions": []}
        fragment, token = found[0], context.token
        cut = len(fragment) - len(token) if token and fragment.endswith(token) else 0
        items = [SimpleCompletion(text[cut:], type=kind) for text, kind in found[1]]
        return {"completions": items, "suppress": bool(items), "ordered": True, "matched_fragment": fragment[cut:]}

    return slate_matcher  # type: ignore[no-any-return,unused-ignore]


def _typed(context: CompletionContext) -> str | None:
    """What stands between the magic and the cursor; None outside of one."""
    above = context.full_text.split("\n")[: context.cursor_line]
    first = next((line for line in above if line.strip()), None)
    if first is None:
        match = _CELL.fullmatch(context.text_until_cursor)
        if match:
            return match["rest"]
    elif first.startswith("%%slate"):
        return None  # the body is the task
    match = _LINE.fullmatch(context.text_until_cursor)
    return match["rest"] if match else None


def wanted(before: str, offers: Offers) -> tuple[str, list[tuple[str, str]]] | None:
    """What may stand at the cursor: the fragment that is there already, and (text, kind) of each completion.

    Args:
        before: the text from the magic to the cursor.
        offers: the known values of a kind.
    """
    text = _QUOTED.sub("Q", before)
    quote = next((mark for mark in text if mark in "\"'"), "")
    if quote:
        text, _, begun = text.partition(quote)
        return _quoted(text, begun, offers)
    words = text.split()
    current = words.pop() if words and not text[-1].isspace() else ""
    table = commands("magic")
    if not words:
        return _starting(current, [(name, "command") for name in table])
    command = table.get(words[0])
    if command is None:
        return None
    return _in_command(command, words[1:], current, offers)


def _quoted(before: str, begun: str, offers: Offers) -> tuple[str, list[tuple[str, str]]] | None:
    """Inside a quote that is still open: paths of memory where one may stand; a task or a text is left alone."""
    words = before.split()
    command = commands("magic").get(words[0]) if words else None
    if command is None or not before[-1:].isspace():
        return None
    option = _expected(command, words[1:])
    if option is None or option.kind != "target":
        return None
    return _starting(begun, [(path.strip('"'), "target") for path in offers("target")])


def _expected(command: Command, words: list[str]) -> Option | None:
    """The option or the positional that the next word is for."""
    flags = {o.name: o for o in command.options if o.is_flag}
    asked = flags.get(words[-1]) if words else None
    if asked is not None and not asked.is_switch:
        return asked
    given, places = _positionals(flags, words), [o for o in command.options if not o.is_flag]
    return places[given] if given < len(places) else places[-1] if places and places[-1].rest else None


def _in_command(
    command: Command, words: list[str], current: str, offers: Offers
) -> tuple[str, list[tuple[str, str]]] | None:
    flags = {o.name: o for o in command.options if o.is_flag}
    asked = flags.get(words[-1]) if words else None
    if asked is not None and not asked.is_switch:
        return _values(asked, current, offers)
    if current.startswith("-"):
        name, equals, value = current.partition("=")
        if equals and name in flags:
            return _values(flags[name], value, offers)
        return _starting(current, _options(flags, words))
    place = _expected(command, words)
    found = _values(place, current, offers) if place is not None else None
    if found is None or not found[1]:
        return _starting(current, _options(flags, words)) if not current else found
    return found


def _positionals(flags: dict[str, Option], words: list[str]) -> int:
    count, value_next = 0, False
    for word in words:
        if value_next:
            value_next = False
        elif word in flags:
            value_next = not flags[word].is_switch
        elif not word.startswith("-"):
            count += 1
    return count


def _options(flags: dict[str, Option], words: list[str]) -> list[tuple[str, str]]:
    return [(o.name, "option") for o in flags.values() if o.many or o.name not in words]


def _values(option: Option, current: str, offers: Offers) -> tuple[str, list[tuple[str, str]]]:
    fragment = current.rpartition(",")[2] if option.many else current
    if fragment.startswith("$"):
        kind = option.kind if option.kind == "variable" else "holder"
        return _starting(fragment[1:], [(name, "variable") for name in offers(kind)])
    known = option.choices or tuple(offers(option.kind)) if option.kind or option.choices else ()
    return _starting(fragment, [(text, option.kind or "value") for text in known])


def _starting(fragment: str, known: Iterable[tuple[str, str]]) -> tuple[str, list[tuple[str, str]]]:
    return fragment, [(text, kind) for text, kind in known if text.startswith(fragment)][:_MOST]


def _offers(magics: SlateMagics, kind: str) -> list[str]:
    """Values of a kind; of the open lab where one is needed, else none."""
    names: dict[str, Any] = magics.ip.user_ns
    match kind:
        case "command":
            return list(commands("magic"))
        case "frame":
            return list(FRAMES)
        case "tool":
            return [*TOOLS, "none"]
        case "limit":
            return [f"{name}=" for name in LIMITS]
        case "variable":
            return [n for n in names if not n.startswith("_") and n not in magics.ip.user_ns_hidden]
        case "holder":
            return [n for n, v in names.items() if not n.startswith("_") and isinstance(v, Episode | Thread | Handle)]
    try:
        return _of_lab(magics, kind)
    except LabError:  # a lab that was closed has nothing to offer
        return []


def _of_lab(magics: SlateMagics, kind: str) -> list[str]:
    door = magics.door
    if kind == "type":
        return list(dict.fromkeys([*TYPES, *(door.config.thread_types if door else ())]))
    if door is None:
        return []
    match kind:
        case "model":
            return [str(row["name"]) for row in door.models()]
        case "thread":
            return [t.id for t in reversed(door.threads()[-_MOST:])]
        case "target":
            return [path if " " not in path else f'"{path}"' for path in door.slates.paths()]
        case "episode":
            return [e.id for e in reversed(door.episodes()[-_MOST:])]
    return []
