"""Batches: all or none, by place or by name, and what depends on a failure is skipped with its reason."""

from __future__ import annotations

import pytest

import slate_lab as sl
from slate_lab import Action
from slate_lab.errors import DispatchError
from slate_lab.records import Request
from slate_lab.weave.batch import plan_batch


def query(task: str, **options) -> Action:
    """A question without tools."""
    return Action(task=task, type="query", **options)


def echo(request: Request) -> str:
    """Answers with the last line of what was asked; `fail` gives no final message."""
    task = request.messages[-1].text.split("\n")[-1]
    return "{}" if request.schema else "" if task == "fail" else f"said {task}"


def test_later_ones_wait_for_earlier_ones_and_cite_them_by_place_or_name(open_lab):
    """Handles come in the order given, also where an action stands before what it waits for."""
    model = sl.ScriptedModel(echo)
    lab = open_lab(model, compressor={"mode": "fixed"})
    handles = lab.batch(
        [
            query("sum", context=["#2", "left"], after=["right"]),
            query("one", name="left"),
            query("two", name="right"),
            query("after the sum", after=["#1"]),
        ]
    )
    episodes = [h.result(10) for h in handles]
    assert [e.task for e in episodes] == ["sum", "one", "two", "after the sum"]
    assert [e.status for e in episodes] == ["ok"] * 4
    sum_thread = lab.store.threads.get(episodes[0].thread)
    assert sum_thread is not None
    assert set(sum_thread.action.after) == {episodes[1].thread, episodes[2].thread}
    assert [id for id, _ in episodes[0].context] == [episodes[1].id]
    asked = [r.messages[-1].text for r in model.requests]
    assert asked[-1] == "after the sum"
    assert "said one" in asked[-2]


def test_dependents_of_a_failed_thread_are_skipped_with_the_reason(open_lab):
    """Down the whole chain; what does not depend on it goes on."""
    lab = open_lab(echo, compressor={"mode": "fixed"})
    first, second, third, other = lab.batch(
        [query("fail", name="a"), query("b", after=["a"]), query("c", after=["#2"]), query("d")]
    )
    assert first.result(5).status == "failed"
    for handle, cause in ((second, first.id), (third, second.id)):
        with pytest.raises(DispatchError, match=f"skipped: {cause}, which it comes after, is") as caught:
            handle.result(5)
        assert caught.value.code == "skipped"
    assert other.result(5).status == "ok"
    assert [t.state for t in lab.threads()] == ["failed", "cancelled", "cancelled", "successful"]


REFUSED = {
    "a cycle of two": ([query("a", after=["#2"]), query("b", after=["#1"])], {"cycle"}, "#1 after #2|#2 after #1"),
    "a cycle of three, by name": (
        [query("a", name="x", after=["y"]), query("b", name="y", after=["z"]), query("c", name="z", after=["x"])],
        {"cycle"},
        "wait for itself",
    ),
    "itself": ([query("a", name="x", context=["x"])], {"cycle"}, "wait for itself"),
    "a name of two": (
        [query("a", name="x"), query("b", name="x"), query("c", after=["x"])],
        {"duplicate_name"},
        "#1, #2",
    ),
    "the same one twice": ([query("a", name="x"), query("b", after=["x", "#1"])], {"duplicate_after"}, "twice"),
    "a place that is not there": ([query("a"), query("b", after=["#3"])], {"unknown_thread"}, "#3"),
    "an unknown name": ([query("a"), query("b", context=["zzz"])], {"unknown_context"}, "action #2"),
    "several bad ones": (
        [query(""), query("b", model="nope")],
        {"blank_task", "unknown_model"},
        "action #1.*action #2",
    ),
    "claims that meet": (
        [query("a", claims=("src/**",)), query("b", claims=("src/x.py",))],
        {"claim_held"},
        "action #2.*of action #1",
    ),
}


@pytest.mark.parametrize(("actions", "codes", "words"), REFUSED.values(), ids=REFUSED)
def test_cycles_duplicates_and_every_other_problem_are_refused_before_anything_is_stored(
    open_lab, actions, codes, words
):
    """Every problem of every action is listed, with which action it is; no thread exists."""
    lab = open_lab(echo)
    with pytest.raises(DispatchError, match=words) as caught:
        lab.batch(actions)
    assert set(caught.value.codes) == codes
    assert lab.threads() == []


def test_claims_that_meet_are_no_problem_where_one_waits_for_the_other(open_lab):
    """They never run together."""
    lab = open_lab(echo, compressor={"mode": "fixed"})
    made = lab.batch(
        [
            query("a", name="x", claims=("src/**",)),
            query("b", name="y", after=["x"]),
            query("c", after=["y"], claims=("src/x.py",)),
        ]
    )
    assert [h.result(5).status for h in made] == ["ok"] * 3


def test_an_empty_batch_is_nothing(open_lab):
    """No action, no handle."""
    assert open_lab().batch([]) == []


def test_a_thousand_in_a_chain_are_planned_at_once():
    """Order is found without going round and round."""
    actions = [query(f"{i}", after=[f"#{i + 2}"] if i < 999 else []) for i in range(1_000)]
    assert plan_batch(actions).order == tuple(range(999, -1, -1))


def test_a_name_that_looks_like_an_id_stays_an_id():
    """Ids of the store come first; a batch cannot hide them."""
    plan = plan_batch([query("a", name="t7"), query("b", after=["t7", "#1"])])
    assert plan.actions[1].after == ("t7", "#1")
