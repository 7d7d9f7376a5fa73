"""Values of options: limits, ids, variables as text, filling."""

from __future__ import annotations

from decimal import Decimal

import pandas as pd
import pytest

from slate_lab.records import Action, Episode, Limits, Thread
from slate_lab.verbs.parser import parse
from slate_lab.verbs.values import action_of, episode_ids, fill, limits, rendered, thread_ids
from slate_lab.verbs.words import WrongUsage, split

BODIES = {
    "one newline at the end is the cell's": ("task\n", "task"),
    "only one": ("task\n\n", "task\n"),
    "none": ("task", "task"),
    "windows": ("a\r\nb\r\n", "a\r\nb"),
    "only blanks": ("  \n", "  "),
}


@pytest.mark.parametrize(("body", "task"), BODIES.values(), ids=BODIES.keys())
def test_the_body_is_the_task(body: str, task: str) -> None:
    """Everything but the newline that ends the last line."""
    assert action_of(parse(["thread"], "magic"), body=body, names={}).task == task


def test_an_action_without_options_is_the_plain_one() -> None:
    """Options that are not given leave the record's defaults."""
    assert action_of(parse(["thread", "x"], "magic"), body=None, names={}) == Action(task="x")


def test_limits_are_exact() -> None:
    """Money is decimal, counts are whole, both spellings of tool calls are known."""
    found = limits(["usd=0.05", "turns=3", "toolCalls=9", "seconds=1.5", "tokens=1000"])
    assert found == Limits(usd=Decimal("0.05"), turns=3, tool_calls=9, seconds=1.5, tokens=1000)
    assert limits(["tool_calls=2"]).tool_calls == 2


@pytest.mark.parametrize(
    "item", ["usd", "usd=", "usd=x", "usd=-1", "usd=0", "usd=nan", "usd=inf", "turns=2.5", "foo=1"]
)
def test_a_wrong_limit_is_refused(item: str) -> None:
    """With the item and what would be right."""
    with pytest.raises(WrongUsage, match=item.partition("=")[0]):
        limits([item])


def test_a_limit_stands_once() -> None:
    """The second would silently win."""
    with pytest.raises(WrongUsage, match="twice"):
        limits(["turns=1", "turns=2"])


def test_ids_come_from_variables() -> None:
    """Records, texts, lists of them; anything else is refused by name."""
    episode = Episode(id="t4.e1", thread="t4")
    thread = Thread(id="t5", action=Action(task="x"), state="running")
    names = {"e": episode, "many": [episode, thread, "t6"], "n": 3, "s": "no id", "empty": []}
    assert episode_ids(["t1.e1", "t2", "$e", "many"], names) == ["t1.e1", "t2.e1", "t4.e1", "t4.e1", "t5.e1", "t6.e1"]
    assert thread_ids(["t1.e1", "e", "$many"], names) == ["t1", "t4", "t4", "t5", "t6"]
    for wrong in ("n", "s", "empty", "missing", "T1", "t01", "t1.e2"):
        with pytest.raises(WrongUsage, match=wrong):
            episode_ids([wrong], names)


def test_values_are_rendered_with_a_cap() -> None:
    """Text as it is, frames as tables with their size, long ones cut with the rest counted."""
    assert rendered("as it\nis {x}") == "as it\nis {x}"
    assert rendered({"a": 1}) == "{'a': 1}"
    frame = rendered(pd.DataFrame({"n": range(1000)}))
    assert frame.startswith("DataFrame, 1,000 x 1, the first and last of 1,000 rows\n")
    assert len(frame) < 2000
    assert "999" in frame
    assert rendered(pd.Series([1.5], name="s")).startswith("Series, 1\n")
    long = rendered("x" * 30_000)
    assert len(long) < 20_100
    assert "10,000 more characters left out" in long
    assert rendered(Episode(id="t1.e1", thread="t1", intent="why")).startswith("## Intent\nwhy")


def test_filling_is_one_pass() -> None:
    """What is inserted is not expanded again, and other braces stay."""
    names = {"a": "{b} {a} $HOME", "b": "B"}
    assert fill("{a}-{b}-{c}-{{a}}", ["a", "b"], names) == "{b} {a} $HOME-B-{c}-{{b} {a} $HOME}"
    assert action_of(parse(split("thread --fill $a"), "magic"), body="x {a}\n", names=names).task == "x {b} {a} $HOME"
    with pytest.raises(WrongUsage, match=r"has no \{b\}"):
        fill("x", ["b"], names)


def test_no_tools_is_not_the_same_as_the_types_own() -> None:
    """`--tools none` grants nothing; without the option the type decides."""
    assert action_of(parse(split("thread --tools none x"), "magic"), body=None, names={}).tools == ()
    assert action_of(parse(split("thread x"), "magic"), body=None, names={}).tools is None
