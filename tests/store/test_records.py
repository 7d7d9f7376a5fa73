"""Every record comes back as it went in."""

from pathlib import Path

from slate_lab.records import Action, Fact
from slate_lab.store import Store


def test_a_thread_and_its_facts_survive_closing_the_store(tmp_path: Path) -> None:
    """What a call has returned from is there when the store is opened again."""
    with Store.open(tmp_path / ".slate" / "slate.db") as store:
        thread = store.threads.queue(Action(task="look"), logical="local", provider="local", model="small")
        assert store.threads.start(thread.id)
        store.facts.add(thread.id, Fact(n=1, kind="text", text="seen"))
        assert store.threads.settle(thread.id, state="successful")
    with Store.open(tmp_path / ".slate" / "slate.db") as store:
        found = store.threads.get(thread.id)
        assert found is not None
        assert (found.id, found.state, found.action) == ("t1", "successful", Action(task="look"))
        assert store.facts.list(thread.id) == [Fact(n=1, kind="text", text="seen")]
