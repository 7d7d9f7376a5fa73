"""Going round in circles: the same calls in a row, or turns that tell nothing new."""

from __future__ import annotations

import itertools

from slate_lab.records import Request, ToolCall
from slate_lab.weave.stuck import Circles


def call(**arguments: object) -> list[ToolCall]:
    """One call of `read`."""
    return [ToolCall(id="c", name="read", arguments=dict(arguments))]


def test_the_same_calls_in_a_row_are_counted_and_another_one_starts_again():
    """Names and arguments count, the ids and the order of arguments do not."""
    circles = Circles(same_calls=3, no_news=9)
    assert circles.asks(call(path="a", limit=1)) is None
    assert circles.asks(call(limit=1, path="a")) is None
    assert circles.asks(call(path="b")) is None
    assert [circles.asks(call(path="a")) for _ in range(3)][:2] == [None, None]
    assert "4 times" in (circles.asks(call(path="a")) or "")


def test_turns_without_news_are_counted_until_something_new_comes():
    """A result seen before, a blank one, and words said before are no news."""
    circles = Circles(same_calls=9, no_news=3)
    assert circles.learns(["one", "I look"]) is None
    assert [circles.learns(["one", ""]), circles.learns([" I look\n"])] == [None, None]
    assert circles.learns(["two"]) is None
    assert [circles.learns(["one"]), circles.learns(["two"])] == [None, None]
    assert "3 turns" in (circles.learns(["one", "two"]) or "")


def test_a_worker_that_alternates_between_known_files_is_stopped(open_lab):
    """It never makes the same call twice in a row, and still learns nothing: stuck, with its facts kept."""
    files = itertools.cycle(["notes/a.md", "notes/b.md"])

    def answer(request: Request):
        return "{}" if request.schema else {"tool": "read", "args": {"path": next(files)}}

    lab = open_lab(answer, worker={"stuck": {"noNews": 4}})
    episode = lab.thread("x", type="researcher")
    assert (episode.status, episode.code) == ("failed", "stuck")
    assert "nothing new was learnt in 4 turns" in (episode.detail or "")
    assert episode.fact_count == 6
