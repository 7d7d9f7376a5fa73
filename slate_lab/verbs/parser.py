"""From words to an `Asked` record, with argparse built from the table; and the help, also from the table."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from slate_lab.records import near
from slate_lab.verbs.table import Command, Option, Place, commands
from slate_lab.verbs.words import WrongUsage

__all__ = ["Asked", "help_text", "parse"]

_PROG = {"magic": "%slate", "program": "slate-lab"}


@dataclass(frozen=True)
class Asked:
    """One command that was asked for: its row of the table and the values of its options, by key."""

    command: Command
    values: dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.values.get(key)


def parse(words: Sequence[str], place: Place) -> Asked:
    """The command and its values. No words, `--help` and `COMMAND --help` all ask for the command `help`.

    Raises:
        WrongUsage: an unknown command or option (near ones are named), a missing or a wrong value.
    """
    table = commands(place)
    if not words or words[0] in ("-h", "--help", "?"):
        return Asked(table["help"], {})
    name, rest = words[0], list(words[1:])
    if name.endswith("?") and name.rstrip("?") in table:
        return Asked(table["help"], {"command": name.rstrip("?")})
    command = table.get(name)
    if command is None:
        other: Place = "program" if place == "magic" else "magic"
        if name in commands(other):
            where = "in a notebook only: %slate" if place == "program" else "in a shell only: slate-lab"
            raise WrongUsage(f"`{name}` is {where} {name}")
        raise WrongUsage(f"there is no command `{name}`{_meant(name, table)}; {_PROG[place]} help lists them")
    options = rest[: rest.index("--")] if "--" in rest else rest
    if "--help" in options or "-h" in options:
        return Asked(table["help"], {"command": name})
    values = _parse(command, rest, place)
    if command.name == "help" and values.get("command") and values["command"] not in table:
        word = values["command"]
        raise WrongUsage(f"there is no command `{word}`{_meant(word, table)}; {_PROG[place]} help lists them")
    return Asked(command, values)


def _parse(command: Command, words: list[str], place: Place) -> dict[str, Any]:
    parser = _parser(command, place)
    found, extras = parser.parse_known_args(words)
    flags = {o.name: o for o in command.options if o.is_flag}
    for extra in extras:
        if re.fullmatch(r"-+[A-Za-z][\w-]*(=.*)?", extra, re.DOTALL):
            name = extra.partition("=")[0]
            raise WrongUsage(f"{command.name} has no option `{name}`{_meant(name, flags)}; {_see(command, place)}")
    if extras:
        raise _too_many(command, extras, place)
    values = vars(found)
    if command.body:
        values[command.body] = _one_text(values.get(command.body) or [], command, place)
    for option in command.options:
        if option.many and values.get(option.key) is not None:
            values[option.key] = _listed(option, values[option.key], command, place)
    return values


def _parser(command: Command, place: Place) -> argparse.ArgumentParser:
    parser = _Parser(command, place)
    for o in command.options:
        if o.is_switch:
            parser.add_argument(o.name, action="store_true", default=False)
        elif o.is_flag and o.many:
            parser.add_argument(o.name, action="append", metavar=o.metavar)
        elif o.is_flag:
            parser.add_argument(o.name, action=_Once, metavar=o.metavar, choices=o.choices or None)
        else:
            nargs = ("+" if o.needed else "*") if o.rest else None if o.needed else "?"
            parser.add_argument(o.key, nargs=nargs, metavar=o.name.upper(), choices=o.choices or None)
    return parser


class _Parser(argparse.ArgumentParser):
    """Reports by raising, never by leaving the process."""

    def __init__(self, command: Command, place: Place) -> None:
        super().__init__(prog=f"{_PROG[place]} {command.name}", allow_abbrev=False, add_help=False)
        self._command, self._place = command, place

    def error(self, message: str) -> NoReturn:
        said = re.sub(r"^argument ([^:]+): ", r"\1: ", message)
        raise WrongUsage(f"{self._command.name}: {said}; {_see(self._command, self._place)}")


class _Once(argparse.Action):
    """An option that may stand once: the second would silently win."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{option_string} stands twice")
        setattr(namespace, self.dest, values)


def _listed(option: Option, given: list[str], command: Command, place: Place) -> list[str]:
    items = [item.strip() for value in given for item in value.split(",")]
    if not all(items):
        raise WrongUsage(f"{command.name}: {option.name}: an empty item between commas; {_see(command, place)}")
    for item in items:
        if option.choices and item not in option.choices:
            known = ", ".join(option.choices)
            raise WrongUsage(f"{command.name}: {option.name}: `{item}` is none of {known}; {_see(command, place)}")
    return items


def _one_text(words: list[str], command: Command, place: Place) -> str | None:
    if len(words) > 1:
        said = f'{_PROG[place]} {command.name} {"... " * (command.body != "task")}"{" ".join(words)[:60]}"'
        raise WrongUsage(f"the {command.body} is one text, put it in quotes: {said}")
    return words[0] if words else None


def _too_many(command: Command, extras: list[str], place: Place) -> WrongUsage:
    if command.body:
        return WrongUsage(
            f"`{extras[0]}` is one word too many: the {command.body} is one text in quotes; {_see(command, place)}"
        )
    return WrongUsage(f"{command.name}: `{extras[0]}` is one word too many; {_see(command, place)}")


def _meant(word: str, known: Any) -> str:
    close = near(word, known)
    return f", did you mean {' or '.join(f'`{c}`' for c in close)}?" if close else ""


def _see(command: Command, place: Place) -> str:
    return f"see {_PROG[place]} {command.name} --help"


def help_text(place: Place, name: str | None = None) -> str:
    """The list of commands, or one command with its options; the same width everywhere."""
    table = commands(place)
    prog = _PROG[place]
    if name is None:
        rows = [(c.name, c.help) for c in table.values()]
        tail = f"{prog} COMMAND --help lists its options."
        if place == "magic":
            tail += " In a cell, %%slate thread takes the body as the task, verbatim."
        return "\n".join([f"{prog} COMMAND [options]", "", *_columns(rows), "", tail])
    command = table[name]
    usage = " ".join([prog, name, *(_usage(o) for o in command.options if not o.is_flag)])
    flags = [(f"{o.name} {o.metavar}".rstrip(), _explained(o)) for o in command.options if o.is_flag]
    words = [(o.name, _explained(o)) for o in command.options if not o.is_flag]
    if flags:
        usage += " [options]"
    lines = [usage, "", f"{command.help[0].upper()}{command.help[1:]}.", "", *_columns(words + flags)]
    if command.body and place == "magic":
        lines += ["", f"%%slate {name} [options]: the body of the cell is the {command.body}, verbatim."]
    return "\n".join(lines).rstrip()


def _usage(option: Option) -> str:
    quoted = option.key in ("task", "text")
    shown = f'"{option.name}"' if quoted else option.name.upper()
    shown += " ..." if option.rest and not quoted else ""
    return shown if option.needed else f"[{shown}]"


def _explained(option: Option) -> str:
    return option.help + ("; several by commas, or repeated" if option.many else "")


def _columns(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(name) for name, _ in rows), default=0)
    return [f"  {name:<{width}}  {text}" for name, text in rows]
