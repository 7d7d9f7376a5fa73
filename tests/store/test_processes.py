"""Several processes on one store: no id twice, nothing lost to a kill, the living left alone."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from slate_lab.errors import StoreError
from slate_lab.records import Episode, Fact, Thread
from slate_lab.store import Store

from .making import episode_of, queue

ALLOT = """
import sys
from slate_lab.records import Action
from slate_lab.store import Store
with Store.open(sys.argv[1]) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(200):
        print(store.threads.queue(Action(task="x"), logical="l", provider="p", model="m").id)
"""

WORK = """
import os, sys, threading
from slate_lab.records import Action, Fact
from slate_lab.store import Store
store = Store.open(sys.argv[1])
store.threads.queue(Action(task="waits"), logical="l", provider="p", model="m")
def work(thread):
    store.threads.start(thread)
    for n in range(1, 100_000):
        store.facts.add(thread, Fact(n=n, kind="text", text="x" * 2000))
        os.write(1, f"{thread} {n}\\n".encode())
ids = [store.threads.queue(Action(task="works"), logical="l", provider="p", model="m").id for _ in range(8)]
for thread in ids:
    threading.Thread(target=work, args=(thread,)).start()
"""


def spawn(script: str, path: Path) -> subprocess.Popen[str]:
    """A process of its own that runs `script` on the store at `path`."""
    return subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_two_processes_never_get_the_same_id(path: Path) -> None:
    """Two kernels that allot 200 ids each at once get 400 ids, and neither meets a locked store."""
    pair = [spawn(ALLOT, path), spawn(ALLOT, path)]
    for one in pair:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in pair:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    ids = [out.split() for out, _ in (one.communicate(timeout=60) for one in pair)]
    assert [one.returncode for one in pair] == [0, 0]
    assert [len(own) for own in ids] == [200, 200]
    assert set(ids[0]) | set(ids[1]) == {f"t{n}" for n in range(1, 401)}
    with Store.open(path) as store:
        assert {t.state for t in store.threads.list()} == {"failed"}  # they closed without having run


def test_a_killed_kernel_loses_no_fact_it_acknowledged(path: Path) -> None:
    """After SIGKILL amid 8 running threads the file is whole, they are interrupted, and every fact told of is there."""
    process = spawn(WORK, path)
    assert process.stdout is not None
    lines: list[str] = []
    while len(lines) < 400 or len({line.split()[0] for line in lines}) < 8:
        lines.append(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    rest, _ = process.communicate(timeout=60)
    lines += [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    told: dict[str, int] = {}
    for line in lines:
        thread, n = line.split()
        told[thread] = max(int(n), told.get(thread, 0))
    seen: list[tuple[Thread, int]] = []

    def fixed(thread: Thread, facts: Sequence[Fact]) -> Episode | None:
        seen.append((thread, len(facts)))
        return episode_of(thread.id, compression="fixed", status="failed", code=thread.code) if facts else None

    with Store.open(path, interrupted=fixed) as store:
        assert store.verify() == []
        threads = store.threads.list()
        assert len(threads) == 9
        assert {(t.state, t.code) for t in threads} == {("failed", "interrupted")}
        assert threads[0].detail == "the kernel ended before it started"
        assert store.interrupted == tuple(store.threads.ids())
        for thread, last in told.items():
            facts = store.facts.list(thread)
            assert [f.n for f in facts] == list(range(1, len(facts) + 1))
            assert len(facts) >= last
            episode = store.episodes.get(f"{thread}.e1")
            assert episode is not None
            assert (episode.compression, len(episode.facts)) == ("fixed", len(facts))
        assert {(t.state, t.code) for t, _ in seen} == {("failed", "interrupted")}
        assert [s.interrupted for s in store.sessions.list()] == [True, False]
    with Store.open(path) as store:
        assert store.interrupted == ()
        assert len(list((path.parent / "sessions").iterdir())) == 1


def test_a_living_session_is_left_alone(path: Path) -> None:
    """A second open, in this process or another, does not touch the threads of one that is alive."""
    with Store.open(path) as first:
        thread = queue(first).id
        first.threads.start(thread)
        with Store.open(path) as second:
            assert (second.session, second.interrupted) == ("s2", ())
            subprocess.run(
                [
                    sys.executable,
                    "-c",
                    "import sys; from slate_lab.store import Store; Store.open(sys.argv[1]).close()",
                    path,
                ],
                check=True,
                timeout=60,
            )
            found = second.threads.get(thread)
            assert found is not None
            assert (found.state, found.session) == ("running", "s1")
        assert first.threads.settle(thread, state="successful")
        assert [s.ended_ns is None for s in first.sessions.list()] == [True, False, False]


FORK = """
import os, sys
from slate_lab.errors import StoreError
from slate_lab.records import Action
from slate_lab.store import Store
store = Store.open(sys.argv[1])
thread = store.threads.queue(Action(task="x"), logical="l", provider="p", model="m").id
child = os.fork()
if not child:
    try:
        store.threads.start(thread)
    except StoreError as error:
        store.close()
        os._exit(7 if error.code == "forked" else 1)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), store.threads.get(thread).state)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_use_its_parents_store(path: Path) -> None:
    """A child is told to open its own, and closing it there changes nothing for the parent."""
    out, _ = spawn(FORK, path).communicate(timeout=60)
    assert out == "7 queued\n"


def test_closing_leaves_nothing_unfinished(path: Path) -> None:
    """What still runs when the store closes is interrupted at once, with its episode; closing twice is closing once."""
    store = Store.open(path, interrupted=lambda thread, facts: episode_of(thread.id, code=thread.code))
    thread = queue(store).id
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.threads.list()
    with pytest.raises(StoreError, match="closed"):
        store.query("SELECT 1")
    with Store.open(path) as again:
        assert again.interrupted == ()
        found = again.threads.get(thread)
        assert found is not None
        assert (found.state, found.code) == ("failed", "interrupted")
        assert again.episodes.ids() == [f"{thread}.e1"]
        assert not [s for s in again.sessions.list() if s.interrupted]
