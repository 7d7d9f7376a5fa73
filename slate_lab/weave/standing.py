"""How the queue stands, as plain values for a person: who holds the permits, who waits where, for how long, for what.

In: the queue and its jobs. Out: one mapping. Called by `lab.status()`; read only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slate_lab.records.call import NANO
from slate_lab.weave.job import Job
from slate_lab.weave.schedule import Queue

__all__ = ["standing"]


def standing(queue: Queue, jobs: Mapping[str, Job], *, now_ns: int) -> dict[str, Any]:
    """`permits`, `free`, `caps`, and rows under `holding` (in the order of their grants) and `waiting` (next first).

    A waiter's `for` is what keeps it: a free permit, the cap of its provider or route, or the threads it comes after.
    """
    jobs = dict(jobs)
    holding = [job for id in queue.holding if (job := jobs.get(id))]
    line = [job for id in queue.waiting if (job := jobs.get(id))]
    later = [job for job in jobs.values() if job.state == "queued" and job not in line]
    return {
        "permits": queue.permits,
        "free": max(0, queue.permits - len(holding)),
        "caps": dict(queue.caps),
        "holding": [_holder(job, now_ns) for job in holding],
        "waiting": [_waiter(queue, job) for job in line + later],
    }


def _holder(job: Job, now_ns: int) -> dict[str, Any]:
    return {
        "id": job.id,
        "label": job.thread.label,
        "route": str(job.admitted.grant.route),
        "seconds": round((now_ns - (job.started_ns or now_ns)) / NANO, 1),
        "doing": job.live.doing,
    }


def _waiter(queue: Queue, job: Job) -> dict[str, Any]:
    position = queue.position(job.id)
    why = "a permit" if position else ", ".join(job.admitted.pending) or "a permit"
    if cap := queue.held_up(job.id):
        why = f"the cap of {cap}"
    return {
        "id": job.id,
        "label": job.thread.label,
        "route": str(job.admitted.grant.route),
        "position": position,
        "waited_s": round(job.waited_s, 1),
        "for": why,
    }
