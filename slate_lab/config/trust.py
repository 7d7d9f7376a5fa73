"""Trust: what of a project's configuration counts, before a person has said that it may.

A project brings code (units, tools, slots) and texts that decide where prompts and keys go (`providers`, charters).
None of it counts until the person trusts the project: then its path and a hash of each part are recorded in the
person's own configuration folder, and any change asks again. In: a project's root. Out: `Trust`, which filters the
project's file for `load`, and answers whoever loads code (units, tools, slots, servers).

Two things need no record: a project that brings nothing of the kind, and parts that are word for word what
`slate-lab init` writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from slate_lab.config.hashed import Hashed, digest
from slate_lab.config.json_text import read_json
from slate_lab.config.narrow import narrowing
from slate_lab.config.nodes import Plain
from slate_lab.config.starter import starter_files
from slate_lab.config.trusted import Ledger
from slate_lab.config.yaml_text import read_yaml
from slate_lab.errors import ConfigError, LabError, Place, Problem

__all__ = ["OPEN_KEYS", "HeldBack", "Trust"]

OPEN_KEYS = frozenset(
    {"defaultModel", "maxConcurrent", "queue", "limits", "durability", "routes", "requestThrottle", "worker"}
    | {"slates", "ledger"}
)
"""Keys of a project's file that count without trust where the home file does not set them; others are held back."""
_NO_PATHS = frozenset({"providers", "models", "replay", "workspace"})
"""Keys whose texts name no file that can run code or change prompts."""
_NAMES = ("slate.yaml", "slate.json")
_TOLD = 6


class HeldBack(UserWarning):
    """Part of a project does not count because it is not trusted."""


@dataclass(frozen=True)
class Trust:
    """What one project brings, and whether the person trusts it as it stands now.

    Attributes:
        root: the project's folder, links resolved.
        entries: the hash of everything that needs trust, by name: `slate.yaml: providers`, `units/search.py`.
        odd: what cannot be trusted at all (a link to a folder, a pipe, too much), each with its reason.
        recorded: the hashes when the person last trusted it; None if never.
        vouched: True or False decides for this opening, whatever is recorded.
    """

    root: Path
    entries: Mapping[str, str]
    odd: tuple[str, ...] = ()
    recorded: Mapping[str, str] | None = None
    vouched: bool | None = None
    ledger: Ledger = field(default_factory=Ledger, repr=False)

    @classmethod
    def of(cls, root: Path, home: Path | None = None, *, vouched: bool | None = None) -> Trust:
        """The trust that the project at `root` has now.

        Args:
            root: the project's folder.
            home: the person's configuration folder, or the file in it; None is the platform's place for it.
            vouched: decides for this opening, without a record.
        """
        root, ledger = root.resolve(), Ledger.at(home)
        entries, odd = _entries(root)
        return cls(root, entries, odd, ledger.recorded(root), vouched, ledger)

    @property
    def trusted(self) -> bool:
        """Whether everything the project brings counts."""
        if self.vouched is not None:
            return self.vouched
        if self.odd:
            return False
        if not self.entries or self.recorded == self.entries:
            return True
        known = self.recorded or {}
        differs = {n: self.entries.get(n, known.get(n)) for n, _ in self.entries.items() ^ known.items()}
        return all(_shipped().get(name) == sha for name, sha in differs.items())

    @property
    def changes(self) -> tuple[str, ...]:
        """What is not as it was when the person trusted it: `added units/a.py`, `changed ...`, `removed ...`."""
        before = self.recorded or {}
        told = [f"added {n}" for n in self.entries if n not in before]
        told += [f"changed {n}" for n, sha in self.entries.items() if n in before and before[n] != sha]
        return (*told, *(f"removed {n}" for n in before if n not in self.entries))

    @property
    def held(self) -> tuple[str, ...]:
        """What is held back now; nothing if the project is trusted."""
        return () if self.trusted else (*self.entries, *self.odd)

    @property
    def reason(self) -> str:
        """Why it is held back; empty if the project is trusted."""
        if self.trusted:
            return ""
        if self.vouched is False:
            return "it was opened with trust=False"
        if self.odd:
            return f"it cannot be trusted: {_few(self.odd)}"
        if self.ledger.fault:
            return self.ledger.fault
        if self.recorded is None:
            return "you have not trusted this project"
        return f"it changed since you trusted it: {_few(self.changes)}"

    @property
    def warning(self) -> str:
        """One line for people, empty if nothing is held back."""
        if not self.held:
            return ""
        do = (
            "" if self.vouched is False else "; read it, then run `slate-lab trust` or `%slate trust` and open it again"
        )
        all_of_it = f"in all {len(self.held)}: {_few(self.held)}"  # behind what changed: that is what is to be read
        return f"held back from {self.root.name}, because {self.reason}; {all_of_it}{do}"

    def allows(self, what: str | Path) -> bool:
        """Whether code or texts of the project may be used.

        Args:
            what: the name of a kind (`"slots"`, `"units"`), or a file, which must still be what was trusted.
        """
        if not self.trusted or isinstance(what, str):
            return self.trusted
        if not what.resolve().is_relative_to(self.root) or self.vouched:
            return True  # not the project's: its own rules hold
        try:
            return self.entries.get(self._name(what)) == digest(what.read_bytes())
        except OSError:
            return False

    def read(self, file: Path) -> bytes:
        """The bytes of a file of the project, exactly as they were trusted; for loaders of code.

        Raises:
            LabError: it is held back, was changed since the project was opened, or cannot be read.
        """
        try:
            raw = file.read_bytes()
        except OSError as e:
            raise LabError(f"{file} cannot be read: {e.strerror or e}", code="unreadable") from e
        if not self.trusted:
            raise LabError(f"{self._name(file)} is held back: {self.reason}", code="held_back")
        if not self.vouched and self.entries.get(self._name(file)) != digest(raw):
            message = f"{self._name(file)} was changed while the lab was open, or lies where trust does not look"
            raise LabError(f"{message}: run `slate-lab trust` and open the lab again", code="held_back")
        return raw

    def keep(self, file: Path, values: Mapping[str, Any]) -> dict[str, Any]:
        """What of the project's configuration file counts, as it was read just now; bounds of workers always do."""
        if self.vouched:
            return dict(values)
        return narrowing(values) | {k: v for k, v in values.items() if k in OPEN_KEYS or self._keeps(file, k, v)}

    def _keeps(self, file: Path, key: str, value: Any) -> bool:
        return self.trusted and self.entries.get(_key_name(file, key)) == _fingerprint(value)

    def _name(self, file: Path) -> str:
        return file.relative_to(self.root).as_posix() if file.is_relative_to(self.root) else str(file)

    def explained(self, error: ConfigError) -> ConfigError:
        """`error`, and what is held back, where that may be why it came up."""
        if not self.held:
            return error
        return ConfigError([*error.problems, Problem("held_back", self.warning, Place(str(self.root)))])

    def record(self, *, only: Iterable[Path] | None = None) -> Trust:
        """Trust the project as it stands; returns the trust it has then.

        Args:
            only: nothing but what these files bring (a program that wrote them vouches for no others).

        Raises:
            ConfigError: something in it cannot be trusted, or the record cannot be written.
        """
        if self.odd:
            raise ConfigError([Problem("untrustworthy", text, Place(str(self.root))) for text in self.odd])
        entries = dict(self.entries)
        if only is not None:
            files = {self._name(path.resolve()) for path in only}
            entries = {n: sha for n, sha in entries.items() if n.partition(": ")[0] in files}
        self.ledger.write(self.root, entries)
        return replace(self, recorded=entries, vouched=None)

    def forget(self) -> Trust:
        """Take the trust back; returns the trust the project has then."""
        self.ledger.write(self.root, None)
        return replace(self, recorded=None, vouched=None)


def _entries(root: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """Everything that needs trust, with its hash, and what cannot be trusted."""
    entries: dict[str, str] = {}
    hashed = Hashed(root)
    values: dict[str, Any] = {}
    for name in _NAMES:
        guarded = {k: v for k, v in _values(root / name).items() if k not in OPEN_KEYS}
        entries |= {_key_name(root / name, key): _fingerprint(value) for key, value in guarded.items()}
        values |= guarded
    hashed.folders(values)
    for key in values.keys() - _NO_PATHS:
        hashed.named(values[key])
    return dict(sorted((entries | hashed.files).items())), tuple(hashed.odd)


def _values(file: Path) -> dict[str, Any]:
    """The keys and values of a configuration file; none if it cannot be read, which `load` reports."""
    try:
        text = file.read_text("utf-8-sig") if file.is_file() else ""
    except (OSError, UnicodeDecodeError):
        return {}
    parsed = read_json(text) if file.suffix == ".json" and text else read_yaml(text)
    found = parsed.root.plain() if parsed.root else {}
    return found if isinstance(found, dict) else {}


def _key_name(file: Path, key: str) -> str:
    return f"{file.name}: {key}"


def _fingerprint(value: Any) -> str:
    return digest(json.dumps(_typed(value), sort_keys=True).encode())


def _typed(value: Any) -> Any:
    """A value with the difference between `off` and `"off"` kept."""
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    return [type(value).__name__ if isinstance(value, Plain) else "", value]


@cache
def _shipped() -> dict[str, str]:
    """The hashes of what `slate-lab init` writes: our own words need no trust."""
    try:
        texts = starter_files()
    except ConfigError:
        return {}
    hashes = {name: digest(text.encode()) for name, text in texts.items()}
    for name in _NAMES:
        found = read_yaml(texts.get(name, "")).root
        values = found.plain() if found else {}
        if isinstance(values, dict):
            hashes |= {f"{name}: {key}": _fingerprint(value) for key, value in values.items()}
    return hashes


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _TOLD} more" if len(listed) > _TOLD else ""
    return ", ".join(listed[:_TOLD]) + more
