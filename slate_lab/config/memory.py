"""The keys of memory: slates with their folders, files and metatags, targets that point at them, the ledger's memory.

In: plain values of the file. Out: frozen specs. Part of `LabConfig`; folded by `slates.spec`. What concerns several
declarations at once (names that stand twice, seeds over the limit, targets that lead nowhere) is in `memory_checks`.
"""

from __future__ import annotations

import unicodedata
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from slate_lab.config.nodes import Plain
from slate_lab.config.spec import Spec
from slate_lab.config.values import Text, Whole, read_number, read_text, shown

__all__ = [
    "BLANK",
    "FileSpec",
    "FolderSpec",
    "LedgerSpec",
    "MetatagSpec",
    "SlateSpec",
    "TagType",
    "TargetSpec",
    "check_file_name",
    "check_title",
    "read_tag",
]

BLANK = "blank"
"""The word that seeds a file with nothing."""
MAX_NAME_BYTES = 255

TagType = Literal["string", "number", "boolean"]
TagValue = str | int | float | bool

_word = BeforeValidator(read_text)


def check_title(text: str) -> str:
    """The title of a slate or the name of a folder or metatag, in normal form (NFC)."""
    name = unicodedata.normalize("NFC", text)
    if not name.strip() or name != name.strip():
        raise ValueError(f"{shown(text)} is no name: it must not be blank, nor begin or end with a blank")
    if any(unicodedata.category(c) == "Cc" for c in name):
        raise ValueError(f"{shown(text)} is no name: it holds a control character")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise ValueError(f"{shown(text)} is no name: {len(name.encode())} bytes, at most {MAX_NAME_BYTES}")
    return name


def check_file_name(text: str) -> str:
    """The name of a file in a folder of a slate, in normal form (NFC)."""
    name = check_title(text)
    if "/" in name or "\\" in name:
        raise ValueError(f"{shown(text)} is no file name: it holds a separator (`/` or `\\`)")
    if name == "." or ".." in name:
        raise ValueError(f"{shown(text)} is no file name: it holds `..` or is `.`")
    return name


def read_tag(kind: TagType, value: Any) -> TagValue:
    """The value of a metatag of type `kind`, from YAML or Python, strictly.

    Raises:
        ValueError: it is of another type; the message says how to write it.
    """
    if kind == "string":
        return read_text(value)
    if kind == "boolean":
        if isinstance(value, bool):
            return value
        if isinstance(value, Plain) and value in ("true", "false"):
            return value == "true"
        raise ValueError(f"expected true or false, found {shown(value)}")
    number = read_number(value)
    return int(number) if number == number.to_integral_value() else float(number)


def _read_scalar(value: Any) -> Any:
    """One value of a filter; its type is the declared one, which `memory_checks` looks up."""
    if isinstance(value, str | int | float | bool | Decimal):
        return value
    raise ValueError(f"expected a text, a number, true or false, found {shown(value)}")


Title = Annotated[Text, AfterValidator(check_title)]
FileName = Annotated[Text, AfterValidator(check_file_name)]
Scalar = Annotated[Any, BeforeValidator(_read_scalar), WithJsonSchema({"type": ["string", "number", "boolean"]})]


class MetatagSpec(Spec):
    """A tag that writes may set and reads may filter by."""

    name: Title
    type: Annotated[TagType, _word]


class FileSpec(Spec):
    """A file that is there from the start.

    Attributes:
        init: `blank`, or the text it begins with; a JSON array of objects begins a file that is merged by key.
        metatags: extend those of the folder, or override them by name.
    """

    name: FileName
    init: Text = BLANK
    metatags: list[MetatagSpec] = Field(default_factory=list)


class FolderSpec(Spec):
    """A container with a budget of tokens over all its files, and what happens when a write would exceed it."""

    name: Title
    token_limit: Whole
    access: Annotated[Literal["readWrite", "read"], _word] = "readWrite"
    eviction_policy: Annotated[Literal["FIFO", "LRU", "reject"], _word] = "FIFO"
    metatags: list[MetatagSpec] = Field(default_factory=list)
    files: list[FileSpec] = Field(default_factory=list)


class SlateSpec(Spec):
    """A persistent memory store, declared: a title and its folders."""

    title: Title
    folders: list[FolderSpec] = Field(min_length=1)


class TargetSpec(Spec):
    """Where in memory: a folder of a slate, perhaps one file of it, perhaps only blocks with these tags."""

    slate: Title
    folder: Title
    file: FileName | None = None
    where: dict[Title, Scalar] = Field(default_factory=dict)


class LedgerSpec(Spec):
    """How long the text of what left a slate stays retrievable; None keeps all. The ledger's rows themselves stay."""

    keep_days: Whole | None = None
