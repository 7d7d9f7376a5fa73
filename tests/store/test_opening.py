"""Opening a store: made, migrated with a backup, or refused with what to do."""

import os
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from slate_lab.errors import StoreError
from slate_lab.records import Fact
from slate_lab.store import Store
from slate_lab.store.database import Database
from slate_lab.store.migrations import STEPS, Step, migrate

from .making import queue

NEXT = Step(STEPS[-1].version + 1, "a note for each thread", ("ALTER TABLE thread ADD COLUMN note TEXT",))
BROKEN = Step(NEXT.version + 1, "one good and one bad", ("CREATE TABLE extra (a)", "CREATE TABLE thread (a)"))


def version(path: Path) -> tuple[int, int]:
    """The version in the file's header, and how many tables are called `extra`."""
    with sqlite3.connect(path) as other:
        found = other.execute("PRAGMA user_version").fetchone()[0]
        extra = other.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'extra'").fetchone()[0]
    other.close()
    return found, extra


def test_a_new_store_is_made_where_none_is(path: Path) -> None:
    """The folder, the file and the write-ahead log come about; nothing is backed up."""
    with Store.open(path) as store:
        assert (store.journal, store.backup, store.session) == ("wal", None, "s1")
        assert store.query("PRAGMA journal_mode")[1] == [("wal",)]
    assert version(path) == (STEPS[-1].version, 0)
    assert not list(path.parent.glob("*.bak"))


@pytest.mark.parametrize(("durability", "level"), [("normal", 1), ("full", 2)])
def test_durability_is_what_was_asked_for(path: Path, durability: str, level: int) -> None:
    """`full` waits for the disk at each commit, `normal` does not."""
    database = Database(path.parent.parent / "a.db", durability=durability)  # type: ignore[arg-type]
    assert database.rows("PRAGMA synchronous") == [(level,)]
    assert database.rows("PRAGMA foreign_keys") == [(1,)]
    database.close()


def test_an_older_store_is_backed_up_and_migrated(path: Path) -> None:
    """The steps it lacks are applied, what it held is kept, and a copy of it as it was stands beside it."""
    with Store.open(path) as store:
        thread = queue(store).id
        store.facts.add(thread, Fact(n=1, kind="text", text="kept"))
    database = Database(path)
    backup = migrate(database, clock=lambda: 0, steps=(*STEPS, NEXT))
    assert database.rows("SELECT n, note FROM thread") == [(1, None)]
    database.close()
    assert backup == path.with_name(f"slate.db.v{STEPS[-1].version}-19700101T000000.bak")
    assert version(path)[0] == NEXT.version
    with Store.open(backup) as old:
        assert [f.text for f in old.facts.list(thread)] == ["kept"]


def test_a_failed_migration_changes_nothing(path: Path) -> None:
    """Steps are applied in one transaction: one that fails takes all others back."""
    Store.open(path).close()
    database = Database(path)
    with pytest.raises(StoreError):
        migrate(database, clock=lambda: 0, steps=(*STEPS, NEXT, BROKEN))
    assert migrate(database, clock=lambda: 0) is None
    database.close()
    assert version(path) == (STEPS[-1].version, 0)
    with Store.open(path) as store:
        queue(store)


def test_a_backup_that_cannot_be_written_stops_the_migration(path: Path) -> None:
    """Without a backup nothing is migrated, and no half copy is left."""
    Store.open(path).close()
    path.with_name(f"slate.db.v{STEPS[-1].version}-19700101T000000.bak").mkdir()
    database = Database(path)
    with pytest.raises(StoreError, match="backup") as caught:
        migrate(database, clock=lambda: 0, steps=(*STEPS, NEXT))
    database.close()
    assert caught.value.code == "no_backup"
    assert version(path)[0] == STEPS[-1].version
    assert not list(path.parent.glob("*.part"))


def test_a_newer_store_is_refused(path: Path) -> None:
    """It says to upgrade, and the file is left as it is."""
    Store.open(path).close()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(StoreError, match="upgrade") as caught:
        Store.open(path)
    assert caught.value.code == "newer"
    assert version(path)[0] == 99


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    """An SQLite file that is no store is not turned into one."""
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE accounts (a)")
    other.close()
    with pytest.raises(StoreError, match="not a store") as caught:
        Store.open(tmp_path / "other.db")
    assert caught.value.code == "not_a_store"


@pytest.mark.parametrize("damage", ["text", "torn"])
def test_a_damaged_file_is_refused(path: Path, damage: str) -> None:
    """A file that is no database, and a store whose first page is torn, are told as damaged."""
    Store.open(path).close()
    whole = path.read_bytes()
    path.write_bytes(b"not a database " * 100 if damage == "text" else whole[:100] + b"\xff" * 8000 + whole[8100:])
    with pytest.raises(StoreError) as caught:
        Store.open(path)
    assert caught.value.code == "corrupt"
    assert "backup" in caught.value.message


@pytest.fixture
def someone() -> Iterator[int | None]:
    """Makes this process nobody in particular, whom file modes hold; None where it is so already."""
    if os.geteuid() != 0:
        yield None
        return
    os.seteuid(65_534)
    yield 65_534
    os.seteuid(0)


@pytest.fixture
def locked_folder() -> Iterator[Path]:
    """A folder with a store in it; whoever has it may set its mode, and it is removed whatever the mode."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        Store.open(folder / "slate.db").close()
        (folder / "slate.db").chmod(0o444)
        folder.chmod(0o555)
        yield folder
        os.seteuid(os.getuid())
        folder.chmod(0o755)


@pytest.mark.parametrize("where", ["new.db", "sub/slate.db"], ids=["a new file", "a new folder"])
def test_a_folder_that_cannot_be_written_is_refused(locked_folder: Path, someone: int | None, where: str) -> None:
    """It says that it cannot be written and what to do."""
    with pytest.raises(StoreError, match="writable") as caught:
        Store.open(locked_folder / where)
    assert caught.value.code == "read_only"


def test_a_store_that_cannot_be_written_is_opened_to_look_at(locked_folder: Path, someone: int | None) -> None:
    """A warning says so and what to do; reading works, a write is refused."""
    with pytest.warns(UserWarning, match="look at only.*writable"):
        store = Store.open(locked_folder / "slate.db")
    with store:
        assert (store.read_only, store.threads.list()) == (True, [])
        with pytest.raises(StoreError) as caught:
            store.events.add("x")
        assert caught.value.code == "read_only"


def test_where_no_write_ahead_log_can_be_a_warning_says_so(tmp_path: Path) -> None:
    """Without shared memory the rollback journal is used, at full durability, after a clear warning."""
    with pytest.warns(UserWarning, match="network disk"):
        database = Database(tmp_path / "a.db", vfs="unix-dotfile")
    assert (database.journal, database.rows("PRAGMA synchronous")) == ("delete", [(2,)])
    migrate(database, clock=lambda: 0)
    database.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Database(tmp_path / "b.db").close()


def test_a_full_disk_is_told_and_survived(store: Store) -> None:
    """What does not fit is refused whole, what was stored stays, and writing goes on when there is space again."""
    thread = queue(store).id
    pages = store.query("PRAGMA page_count")[1][0][0]
    store._db.rows(f"PRAGMA max_page_count = {pages + 4}")

    def fill() -> None:
        with store.batch():
            for n in range(1, 100):
                store.facts.add(thread, Fact(n=n, kind="text", text="x" * 4000))

    with pytest.raises(StoreError, match="disk is full") as caught:
        fill()
    assert caught.value.code == "disk_full"
    assert store.facts.count(thread) == 0
    store._db.rows("PRAGMA max_page_count = 1000000")
    store.facts.add(thread, Fact(n=1, kind="text", text="x" * 40_000))
    assert store.verify() == []


def test_a_store_kept_locked_is_told(tmp_path: Path) -> None:
    """When another process writes for longer than the wait, the error says so; afterwards it works."""
    one, two = Database(tmp_path / "a.db", busy_s=0.05), Database(tmp_path / "a.db", busy_s=0.05)
    one.run("CREATE TABLE x (a)")
    with one.transaction():
        with pytest.raises(StoreError, match="another process") as caught:
            two.run("INSERT INTO x VALUES (1)")
        with pytest.raises(StoreError, match="another process"), two.transaction():
            pytest.fail("a transaction began though the file is locked")
        assert two.rows("SELECT count(*) FROM x") == [(0,)]
    assert caught.value.code == "locked"
    assert two.run("INSERT INTO x VALUES (1)") == 1
    one.close()
    two.close()


def test_batches_are_one_commit_and_nest(store: Store, path: Path) -> None:
    """All or nothing; what an inner batch did is undone when it raises, and the outer one goes on."""
    thread = queue(store).id

    def add(n: int) -> None:
        store.facts.add(thread, Fact(n=n, kind="text", text=str(n)))

    def fail(n: int) -> None:
        with store.batch():
            add(n)
            raise KeyError(n)

    with store.batch():
        add(1)
        with pytest.raises(KeyError):
            fail(2)
        with store.batch():
            add(3)
        assert store.query("SELECT count(*) FROM facts")[1] == [(0,)]  # others see none of it yet
    with pytest.raises(KeyError):
        fail(4)
    add(5)
    assert [f.n for f in store.facts.list(thread)] == [1, 3, 5]
    assert store.query("SELECT count(*) FROM facts")[1] == [(3,)]


def test_stores_in_memory_are_apart(tmp_path: Path) -> None:
    """`:memory:` leaves no file and shares nothing."""
    with Store.open(":memory:") as one, Store.open(":memory:") as two:
        queue(one)
        assert (one.journal, one.threads.ids(), two.threads.ids()) == ("memory", ["t1"], [])
    assert list(tmp_path.iterdir()) == []
