"""A killed kernel loses nothing that was found."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import slate_lab as sl

CHILD = textwrap.dedent(
    """
    import asyncio, sys
    import slate_lab as sl

    async def answer(request):
        if len(request.messages) == 2:
            return {"tool": "read", "args": {"path": "notes/a.md"}}
        print("reading done", flush=True)
        await asyncio.sleep(600)

    lab = sl.Lab.open(sys.argv[1], models=sl.ScriptedModel(answer), config={"maxConcurrent": 8})
    handles = [lab.dispatch(f"Task {i}.", type="researcher") for i in range(10)]
    handles[0].result()
    """
)


def test_sigkill_during_eight_running_threads_loses_no_fact(project):
    """On the next open the store is intact, running and queued threads are marked, their facts are there."""
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(project)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for _ in range(8):
        assert child.stdout.readline() == "reading done\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    begun = time.monotonic()
    with sl.Lab.open(project, models=sl.ScriptedModel(lambda r: "{}" if r.schema else "again")) as lab:
        assert time.monotonic() - begun < 5
        threads = lab.threads()
        assert [t.state for t in threads] == ["failed"] * 10
        assert {t.code for t in threads} == {"interrupted"}
        for thread in threads[:8]:
            assert "7.5 %" in lab.facts(thread.id)[0].text
            episode = lab.episode(thread.id)
            assert (episode.status, episode.compression) == ("failed", "fixed")
        assert lab.store.query("PRAGMA integrity_check")[1] == [("ok",)]
        again = lab.thread("Go on.", type="query", context=[f"{threads[0].id}.e1"])
        assert again.thread == "t11"
