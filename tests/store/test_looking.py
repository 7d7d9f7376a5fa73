"""A store that is deleted while it is open, or that can only be looked at."""

import shutil
import sqlite3
from pathlib import Path

import pytest

import slate_lab as sl
from slate_lab.errors import DispatchError, StoreError
from slate_lab.store import Store
from slate_lab.store.database import Database

from .making import episode_of, queue


def made(path: Path) -> str:
    """A store with one settled thread, closed."""
    with Store.open(path) as store:
        thread = queue(store).id
        store.threads.start(thread)
        store.threads.settle(thread, state="successful", episode=episode_of(thread))
    return thread


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_store_that_vanishes_while_it_is_open_is_noticed(path: Path, how: str) -> None:
    """The next write is refused and says so; nothing goes on being written to a file without a name."""
    store = Store.open(path)
    queue(store)
    shutil.rmtree(path.parent)
    if how == "replaced":
        made(path)
    for write in (lambda: queue(store), lambda: store.events.add("x"), store.close):
        with pytest.raises(StoreError, match="deleted or replaced while it was open") as caught:
            write()
        assert caught.value.code == "gone"
    with Store.open(path) as again:
        assert len(again.threads.list()) == (1 if how == "replaced" else 0)


@pytest.mark.parametrize("how", ["mode=ro", "immutable=1"])
def test_a_database_opened_to_look_refuses_every_write(path: Path, how: str) -> None:
    """Reading works; a write is refused with the code read_only and says what to do."""
    made(path)
    database = Database(path, look=how)
    try:
        assert database.rows("SELECT count(*) FROM thread") == [(1,)]
        with pytest.raises(StoreError, match="writable") as caught:
            database.run("DELETE FROM thread")
        assert caught.value.code == "read_only"
    finally:
        database.close()


def test_a_store_that_cannot_be_written_is_opened_to_look_at(project: Path) -> None:
    """A warning says so; threads, episodes and frames are there; a dispatch is refused with the code read_only."""
    path = project / ".slate" / "slate.db"
    thread = made(path)
    (path.parent / "sessions").rmdir()
    (path.parent / "sessions").write_text("in the way")  # no session can be entered: as in a folder without rights
    with pytest.warns(UserWarning, match="look at only"):
        lab = sl.Lab.open(project, models=sl.ScriptedModel(["x"]), env={})
    with lab:
        assert [t.id for t in lab.threads()] == [thread]
        assert [e.thread for e in lab.episodes()] == [thread]
        assert len(lab.frames.threads()) == 1
        assert lab.status()["threads"] == 1
        with pytest.raises(DispatchError) as caught:
            lab.dispatch("x", type="query")
        assert caught.value.code == "read_only"
    base = sqlite3.connect(path)
    assert base.execute("SELECT count(*) FROM session").fetchone() == (1,)
    base.close()
