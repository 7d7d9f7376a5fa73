"""In-action compaction: calls are never parted from their results, it is its own kind of call, and it must help."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slate_lab as sl
from slate_lab.models.protocol import Capabilities
from slate_lab.records import Message, Request, ToolCall
from slate_lab.weave.compact import Cut, compacted, is_whole, plan_cut, summary_request

BRIEF = [Message(role="system", text="s"), Message(role="user", text="task")]


def conversation(turns: list[tuple[int, int]]) -> list[Message]:
    """A history: per turn how many calls it makes, and how long each result is; 0 calls is a word of a person."""
    messages = list(BRIEF)
    for n, (calls, size) in enumerate(turns):
        if not calls:
            messages.append(Message(role="user", text="steer " * size))
            continue
        made = tuple(ToolCall(id=f"c{n}.{i}", name="read") for i in range(calls))
        messages.append(Message(role="assistant", text=f"turn {n}", calls=made))
        messages += [Message(role="tool", text="x" * size, call_id=c.id, name="read") for c in made]
    return messages


def pairs(messages: list[Message]) -> tuple[set[str], set[str]]:
    """Ids that were called, and ids that were answered."""
    called = {c.id for m in messages for c in m.calls}
    return called, {m.call_id or "" for m in messages if m.role == "tool"}


TURNS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 400)), min_size=1, max_size=8)


@given(TURNS)
def test_at_every_split_point_a_cut_is_whole_exactly_where_no_call_is_parted_from_its_result(turns):
    """Over all split points of any history: both sides of a whole cut answer every call they hold."""
    messages = conversation(turns)
    for at in range(len(BRIEF), len(messages) + 1):
        called, answered = pairs(messages[at:])
        before = pairs(messages[:at])
        whole = called == answered and before[0] == before[1]
        assert is_whole(messages, at) == whole


@given(TURNS, st.integers(50, 2_000))
def test_whatever_is_planned_keeps_the_brief_and_parts_no_pair(turns, room):
    """The brief stays in front, what goes is one stretch, and the conversation that is left is well formed."""
    messages = conversation(turns)
    sizes = [len(m.text) // 4 + 8 for m in messages]
    cut = plan_cut(messages, sizes, head=2, room=room)
    if cut is None:
        return
    assert cut.start == 2 < cut.stop <= len(messages)
    shorter = compacted(messages, cut, "summary")
    called, answered = pairs(shorter)
    assert called == answered
    assert shorter[:2] == BRIEF
    assert shorter[3:] == messages[cut.stop :]
    request = summary_request(messages, cut, task="task", room=room + 400, max_output=100, count=lambda t: len(t) // 4)
    assert not request.tools
    assert len(request.messages[-1].text) // 4 <= room + 400 + 100


def test_a_history_without_anything_old_has_nothing_to_cut():
    """Only the brief: there is nothing to take out."""
    assert plan_cut(BRIEF, [1, 1], head=2, room=100) is None


def test_the_last_exchange_stays_word_for_word_where_it_fits():
    """What the worker has just read is not replaced by a summary of it."""
    messages = conversation([(1, 4_000), (1, 1_200)])
    sizes = [len(m.text) // 4 for m in messages]
    assert plan_cut(messages, sizes, head=2, room=1_000) == Cut(2, 4)


BIG = "line of a long log with words\n" * 120


def reader(answers: int, *, summary: str = "I read three parts; next is the answer."):
    """A worker that reads the big file `answers` times, each time from another line, and a compactor."""

    def answer(request: Request):
        if request.schema:
            return "{}"
        if request.messages[0].text.startswith("You shorten"):
            return summary
        if not request.tools:
            return "done without tools"
        nonlocal left
        left -= 1
        if left < 0:
            return "The log says the same everywhere."
        return {"tool": "read", "args": {"path": "big.txt", "offset": answers - left, "limit": 90 + left}}

    left = answers
    return sl.ScriptedModel(answer, capabilities=Capabilities(window=4_000, max_output=800))


def test_a_history_that_nears_the_window_is_compacted_and_the_work_goes_on(open_lab, project):
    """Its own kind of call, event, usage and cost column; the facts stay whole; no request exceeds the room."""
    (project / "big.txt").write_text(BIG)
    model = reader(8)
    lab = open_lab(model)
    episode = lab.thread("Read all of big.txt.", type="researcher")
    assert (episode.status, episode.code) == ("ok", None)
    kinds = [c.kind for c in lab.calls()]
    assert kinds.count("compaction") >= 1
    assert [f.tool for f in episode.facts].count("read") == 8
    assert set(episode.usage) == {"worker", "compressor", "compaction"}
    events = [e.data for e in lab.events() if e.kind == "thread.compacted"]
    assert len(events) == kinds.count("compaction")
    assert all(e["after_tokens"] < e["before_tokens"] for e in events)
    for request in model.requests:
        called = {c.id for m in request.messages for c in m.calls}
        assert called == {m.call_id for m in request.messages if m.role == "tool"}
    row = lab.frames.threads().iloc[0]
    assert row["compactions"] == len(events)
    assert row["compaction_usd"] == 0.0
    assert row["worker_usd"] == 0.0


@pytest.mark.parametrize("summary", ["", "long " * 3_000], ids=["an empty summary", "a summary as long as the history"])
def test_a_compaction_that_frees_nothing_stops_the_thread(open_lab, project, summary):
    """Instead of compacting for ever the action fails with its code, and what was found is kept."""
    (project / "big.txt").write_text(BIG)
    lab = open_lab(reader(8, summary=summary))
    episode = lab.thread("Read all of big.txt.", type="researcher")
    assert (episode.status, episode.code) == ("failed", "compaction_no_progress")
    assert [c.kind for c in lab.calls()].count("compaction") == 1
    assert episode.fact_count >= 1


def test_a_provider_that_counts_otherwise_is_believed(open_lab, project):
    """A context overflow in the middle of the work compacts once and asks again."""
    (project / "big.txt").write_text(BIG)
    asked: list[str] = []

    def answer(request: Request):
        if request.schema:
            return "{}"
        if request.messages[0].text.startswith("You shorten"):
            asked.append("compaction")
            return "I read the start."
        asked.append("worker")
        if len(asked) == 1:
            return {"tool": "read", "args": {"path": "big.txt", "limit": 90}}
        if asked == ["worker", "worker"]:
            return sl.errors.ModelError("context-overflow", "too long")
        return "done"

    lab = open_lab(sl.ScriptedModel(answer, capabilities=Capabilities(window=50_000, max_output=800)))
    assert lab.thread("x", type="researcher").status == "ok"
    assert asked == ["worker", "worker", "compaction", "worker"]
