"""Hostile text is stored as it is or refused; it never breaks the store and is never executed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slate_lab.errors import StoreError
from slate_lab.records import Action, Attempt, Call, Fact
from slate_lab.store import Store

from .making import episode_of, queue

NASTY = [
    pytest.param("'); DROP TABLE thread; --", id="SQL"),
    pytest.param('" OR 1=1; DELETE FROM fact; /*', id="SQL in double quotes"),
    pytest.param("a\0b\0", id="NUL"),
    pytest.param("\x1b[31m\r\n\u202e\ufeff\u2028", id="control"),
    pytest.param("%s {x} ?1 :a @b $c", id="placeholders"),
    pytest.param("\U0001f4a9" * 1000 + "é" * 3000, id="wide"),
    pytest.param("x" * 300_000, id="long"),
    pytest.param("", id="empty"),
]


@pytest.mark.parametrize("text", NASTY)
def test_any_text_in_every_field_comes_back_as_it_was(store: Store, text: str) -> None:
    """Every text field of every record holds any text."""
    action = Action(task=text, name=text, type=text, reason=text, variables={text: text}, context=(text,))
    thread = store.threads.queue(action, logical=text, provider=text, model=text).id
    found = store.threads.get(thread)
    assert found is not None
    assert (found.action, found.logical, found.provider, found.model) == (action, text, text, text)
    fact = Fact(n=1, kind="tool", text=text, tool=text, arguments={text: [text]})
    store.facts.add(thread, fact)
    assert store.facts.list(thread) == [fact]
    attempt = Attempt(n=1, outcome=text, started_ns=1, ended_ns=2, response_id=text, error=text, raw_usage={text: text})
    call = store.calls.add(
        Call(
            thread=thread,
            kind="worker",
            logical=text,
            provider=text,
            model=text,
            started_ns=1,
            ended_ns=2,
            outcome=text,
            finish=text,
            attempts=(attempt,),
            error=text,
        )
    )
    assert store.calls.list(thread) == [call]
    event = store.events.add(text, thread=thread, data={text: text})
    assert store.events.list(thread) == [event]
    episode = episode_of(thread, name=text, task=text, handoff=text, code=text, artifacts=({"path": text},))
    assert store.threads.settle(thread, state="failed", code=text, detail=text, episode=episode)
    stored = store.episodes.get(f"{thread}.e1")
    assert stored is not None
    assert (stored.name, stored.handoff, stored.artifacts) == (text, text, ({"path": text},))
    assert store.threads.ids() == [thread]
    assert store.verify() == []


@pytest.mark.parametrize("text", ["\ud800", "ok \udfff ok"])
def test_lone_surrogates_are_refused_with_what_to_do(store: Store, text: str) -> None:
    """Text that is no Unicode is a StoreError that names `clean`, and nothing of the record is stored."""
    thread = queue(store).id
    for write in (
        lambda: store.threads.queue(Action(task=text), logical="l", provider="p", model="m"),
        lambda: store.threads.queue(Action(task="x"), logical=text, provider="p", model="m"),
        lambda: store.facts.add(thread, Fact(n=1, kind="text", text=text)),
        lambda: store.facts.add(thread, Fact(n=1, kind="tool", text="", arguments={"a": text})),
        lambda: store.events.add(text),
        lambda: store.events.add("k", data={text: 1}),
        lambda: store.threads.settle(thread, state="failed", detail=text),
        lambda: store.query("SELECT ?", (text,)),
    ):
        with pytest.raises(StoreError, match=r"tokens\.clean") as caught:
            write()
        assert caught.value.code == "bad_text"
    assert store.threads.ids() == [thread]
    assert (store.facts.count(thread), store.events.list()) == (0, [])


@pytest.mark.parametrize(
    "fact",
    [
        pytest.param(Fact(n=1, kind="tool", text="", arguments={"a": object()}), id="no JSON"),
        pytest.param(Fact(n=1, kind="text", text="", at_ns=2**70), id="number too large"),
        pytest.param(Fact(n=0, kind="text", text=""), id="numbered 0"),
        pytest.param(Fact(n=2**24, kind="text", text=""), id="numbered too high"),
        pytest.param(Fact(n=1, kind="text", text=None), id="no text"),  # type: ignore[arg-type]
        pytest.param(Fact(n=1, kind="text", text=object()), id="an object"),  # type: ignore[arg-type]
    ],
)
def test_values_that_cannot_be_stored_are_refused(store: Store, fact: Fact) -> None:
    """Whatever SQLite or JSON cannot hold is a StoreError, never another exception."""
    thread = queue(store).id
    with pytest.raises(StoreError):
        store.facts.add(thread, fact)
    assert store.facts.count(thread) == 0


def test_a_fact_needs_a_thread_and_a_number_of_its_own(store: Store) -> None:
    """A fact of an unknown thread, and a second fact of one number, are refused."""
    thread = queue(store).id
    store.facts.add(thread, Fact(n=1, kind="text", text="first"))
    for where in (thread, "t9"):
        with pytest.raises(StoreError) as caught:
            store.facts.add(where, Fact(n=1, kind="text", text="second"))
        assert caught.value.code == "constraint"
    assert [f.text for f in store.facts.list(thread)] == ["first"]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None)
@given(
    arguments=st.none() | st.dictionaries(st.text(st.characters(codec="utf-8")), JSON, max_size=3),
    text=st.text(st.characters(codec="utf-8")),
    ok=st.booleans(),
)
def test_any_fact_comes_back_as_it_went_in(arguments: dict[str, object] | None, text: str, ok: bool) -> None:
    """Any text and any JSON arguments survive."""
    with Store.open(":memory:") as store:
        thread = queue(store).id
        fact = Fact(n=1, kind="tool", text=text, tool="t", arguments=arguments, ok=ok)
        store.facts.add(thread, fact)
        assert store.facts.list(thread) == [fact]
