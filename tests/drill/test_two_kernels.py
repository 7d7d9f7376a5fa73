"""Two kernels work on one project at once, a third looks on."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import slate_lab as sl

from .told import Told, start


@pytest.mark.parametrize(
    "count", [pytest.param(20, id="40 dispatches"), pytest.param(500, id="1,000 dispatches", marks=pytest.mark.drill)]
)
def test_two_kernels_share_a_project(project: Path, count: int) -> None:
    """Interleaved dispatches: no id twice, nothing lost, no locked store, and each sees what the other has."""
    both = [Told(), Told()]
    kernels = [start(project, f"k{i}", count) for i in range(2)]
    with sl.Lab.open(project, models=sl.ScriptedModel(["x"]), env={}) as lab:

        def hear(i: int) -> None:
            assert kernels[i].stdout is not None
            for line in kernels[i].stdout:
                if both[i].hear(line) == "queued":
                    id = line.split()[1]
                    assert lab.store.threads.get(id) is not None, f"{id} is not seen from the third kernel"

        listeners = [threading.Thread(target=hear, args=(i,)) for i in range(2)]
        for one in listeners:
            one.start()
        for one in listeners:
            one.join(timeout=300)
        faults = [kernel.communicate(timeout=60)[1] for kernel in kernels]
        assert [kernel.returncode for kernel in kernels] == [0, 0], faults
        missing = both[0].missing(lab.store) + both[1].missing(lab.store) + lab.store.verify()
        threads = lab.threads()
    ids = [id for told in both for id in told.threads.values()]
    assert missing == []
    assert not any(told.refused for told in both)
    assert len(ids) == len(set(ids)) == len(threads) == 2 * count
    assert {t.state for t in threads} == {"successful"}
    assert len({t.session for t in threads}) == 2
    if count >= 500:
        for told in both:
            told.count("two kernels, interleaved", missing=0, rounds=1)
