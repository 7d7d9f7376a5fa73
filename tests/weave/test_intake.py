"""What a person writes in Python becomes an action, or an error that says what was expected."""

from __future__ import annotations

from decimal import Decimal

import pytest

from slate_lab.errors import DispatchError
from slate_lab.records import Episode, Limits
from slate_lab.weave.intake import action_of

GOOD = {
    "nothing but a task": ({}, {}),
    "an episode for its id": ({"context": Episode(id="t1.e1", thread="t1")}, {"context": ("t1.e1",)}),
    "ids and episodes mixed": (
        {"context": ["t2.e1", Episode(id="t1.e1", thread="t1")]},
        {"context": ("t2.e1", "t1.e1")},
    ),
    "a thread stands for its episode": ({"context": ["t1", "t2.e1"]}, {"context": ("t1.e1", "t2.e1")}),
    "one word for a list": ({"tools": "read", "after": "t1"}, {"tools": ("read",), "after": ("t1",)}),
    "limits as a mapping": ({"limits": {"usd": 0.05, "turns": 3}}, {"limits": Limits(usd=Decimal("0.05"), turns=3)}),
    "none is the default": ({"type": None, "limits": None}, {"type": "general", "limits": Limits()}),
    "variables are shown as text": ({"variables": {"n": 3}}, {"variables": {"n": "3"}}),
}


@pytest.mark.parametrize(("options", "fields"), GOOD.values(), ids=GOOD)
def test_what_is_written_is_understood(options, fields):
    """Convenient forms give the same action as strict ones."""
    action = action_of("x", **options)
    assert {name: getattr(action, name) for name in fields} == fields


BAD = {
    "unknown option": ({"contxt": []}, "did you mean context"),
    "unknown limit": ({"limits": {"zz": 1}}, "the limits are turns"),
    "a number for a type": ({"type": 3}, "type"),
    "a number for a model": ({"model": 3}, "model"),
    "a truth for a limit": ({"limits": {"turns": True}}, "turns"),
    "words for dollars": ({"limits": {"usd": "x"}}, "usd"),
    "a number for context": ({"context": 5}, "context"),
    "numbers in a list": ({"tools": [1]}, "tools"),
    "text for limits": ({"limits": "turns=3"}, "limits"),
}


@pytest.mark.parametrize(("options", "words"), BAD.values(), ids=BAD)
def test_what_cannot_be_read_is_told(options, words):
    """One error of the lab's own, in one line."""
    with pytest.raises(DispatchError, match=words) as caught:
        action_of("x", **options)
    assert caught.value.code == "bad_argument"
    assert "\n" not in str(caught.value)


def test_a_task_must_be_text():
    """None and bytes are told, not crashed on."""
    for task in (None, b"x", 3):
        with pytest.raises(DispatchError, match="task"):
            action_of(task)
