"""Tool calls from streamed pieces."""

from __future__ import annotations

from typing import Any

import pytest

from slate_lab.models.toolcalls import CUT, CallAssembler, read_arguments
from slate_lab.records import ToolCall


def piece(index: int | None = None, id: str | None = None, name: str | None = None, arguments: Any = None) -> dict:
    """One entry of a delta."""
    made: dict[str, Any] = {"function": {"name": name, "arguments": arguments}}
    if index is not None:
        made["index"] = index
    if id is not None:
        made["id"] = id
    return made


def call(id: str, name: str, **arguments: Any) -> ToolCall:
    """A call as it should come out."""
    return ToolCall(id=id, name=name, arguments=arguments)


def build(pieces: list[dict], *, cut: bool = False) -> tuple[ToolCall, ...]:
    """The calls of pieces that came one by one."""
    assembler = CallAssembler()
    for one in pieces:
        assembler.add([one])
    return assembler.build(cut=cut)


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        pytest.param(
            [piece(0, "a", "fetch", '{"u":1}'), piece(0, "b", "search", '{"q":2}')],
            [call("a", "fetch", u=1), call("b", "search", q=2)],
            id="shared-index-zero",
        ),
        pytest.param(
            [piece(0, "a", "fetch", '{"u"'), piece(0, "", None, ":1}")],
            [call("a", "fetch", u=1)],
            id="empty-id-in-later-pieces",
        ),
        pytest.param(
            [piece(0, "a", "fetch", '{"u"'), piece(0, "x2", None, ":1}")],
            [call("a", "fetch", u=1)],
            id="new-id-with-every-piece",
        ),
        pytest.param(
            [piece(0, "a", "fetch", '{"u"'), piece(0, "a", "fetch", ":1}")],
            [call("a", "fetch", u=1)],
            id="id-and-name-repeated",
        ),
        pytest.param(
            [piece(0, None, "fetch", '{"u"'), piece(0, None, "fetch", ":1}")],
            [call("call_1", "fetch", u=1)],
            id="name-repeated-without-id",
        ),
        pytest.param(
            [piece(None, "a", "fetch", '{"u":1}'), piece(None, "b", "fetch", '{"u":2}')],
            [call("a", "fetch", u=1), call("b", "fetch", u=2)],
            id="no-index",
        ),
        pytest.param(
            [piece(None, None, "fetch", '{"u":1}'), piece(None, None, "fetch", '{"u":2}')],
            [call("call_1", "fetch", u=1), call("call_2", "fetch", u=2)],
            id="no-index-no-id",
        ),
        pytest.param(
            [piece(None, "a", "fetch", '{"u"'), piece(None, None, None, ":1}")],
            [call("a", "fetch", u=1)],
            id="no-index-continued",
        ),
        pytest.param(
            [
                piece(0, "a", "f", '{"x'),
                piece(1, "b", "g", '{"y'),
                piece(0, None, None, '":1}'),
                piece(1, None, None, '":2}'),
            ],
            [call("a", "f", x=1), call("b", "g", y=2)],
            id="interleaved-by-index",
        ),
        pytest.param(
            [piece(0, "a", "f", '{"x":1}'), piece(1, "a", "f", '{"x":2}')],
            [call("a", "f", x=1), call("a_", "f", x=2)],
            id="same-id-twice",
        ),
        pytest.param([piece(0, "a", "now", "")], [call("a", "now")], id="no-arguments"),
        pytest.param([piece(0, "a", "now", None)], [call("a", "now")], id="absent-arguments"),
        pytest.param([piece(0, "a", "now", "null")], [call("a", "now")], id="null-arguments"),
        pytest.param(
            [piece(0, "a", "now", "{}"), piece(0, "b", "now", "{}")],
            [call("a", "now"), call("b", "now")],
            id="two-without",
        ),
        pytest.param([piece(0, "a", "f", {"u": 1})], [call("a", "f", u=1)], id="decoded-object"),
        pytest.param(
            [piece(0, "a", "say", '{"t":"\\ud83c\\udf78"}')],
            [call("a", "say", t="\U0001f378")],
            id="surrogate-pair-escape",
        ),
        pytest.param([piece(0, "a", "say", '{"t":"\\ud83c"}')], [call("a", "say", t="\ufffd")], id="lone-surrogate"),
        pytest.param([piece(0, "a", "say", {"t": "\ud83c"})], [call("a", "say", t="\ufffd")], id="lone-and-decoded"),
        pytest.param([piece(0, "a\ud83c", "s\ud83c", "")], [call("a\ufffd", "s\ufffd")], id="lone-in-id-and-name"),
        pytest.param(
            [piece(0, "a", "add", '{"n":1000000000000000000000}')],
            [call("a", "add", n="1000000000000000000000")],
            id="beyond-64-bit",
        ),
    ],
)
def test_assembly(pieces: list[dict], calls: list[ToolCall]) -> None:
    """The calls that the pieces make, in order."""
    assert list(build(pieces)) == calls


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        pytest.param('{"u":1}</tool_call>', {"u": 1}, id="trailing-garbage"),
        pytest.param('{"u":1}}', {"u": 1}, id="trailing-brace"),
        pytest.param('{}{"u":1}', {"u": 1}, id="empty-object-in-front"),
        pytest.param('{"u":1}{"u":1}', {"u": 1}, id="said-twice"),
        pytest.param('"{\\"u\\":1}"', {"u": 1}, id="written-as-a-string"),
        pytest.param('{"t":"a\nb"}', {"t": "a\nb"}, id="raw-line-end"),
        pytest.param(' \n{"u":1}\n', {"u": 1}, id="space-around"),
    ],
)
def test_sloppy_arguments(text: str, arguments: dict[str, Any]) -> None:
    """What can be read for sure is read."""
    assert read_arguments(text) == (arguments, None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param('{"u":1}{"u":2}', "two different objects", id="two-glued"),
        pytest.param('{"u":', "not JSON", id="torn"),
        pytest.param("[1]", "not an object", id="list"),
        pytest.param("plain words", "not JSON", id="words"),
        pytest.param('{"u":NaN}', "not JSON", id="nan"),
        pytest.param('{"u":1e999}', "not JSON", id="infinite"),
        pytest.param('{"u":' + "[" * 100_000, "not JSON", id="too-deep"),
        pytest.param('{"u":' + "[" * 99 + "]" * 99 + "}", "nested too deeply", id="whole-but-deep"),
    ],
)
def test_unreadable_arguments(text: str, says: str) -> None:
    """What cannot be read for sure is an error, in few words, and no arguments."""
    arguments, error = read_arguments(text)
    assert arguments == {}
    assert error is not None
    assert says in error
    assert len(error) < 150


@pytest.mark.parametrize("text", ['{"path":"a","text":"lo', "", '{"path":"a"'])
def test_a_call_cut_by_the_length_limit_is_not_run(text: str) -> None:
    """The last call of a cut reply needs complete arguments; those before it stand."""
    whole, cut = build([piece(0, "a", "read", '{"p":1}'), piece(1, "b", "write", text)], cut=True)
    assert whole == call("a", "read", p=1)
    assert (cut.name, cut.arguments, cut.error) == ("write", {}, CUT)


def test_a_call_without_a_name_is_an_error() -> None:
    """Nothing is run for pieces that name no tool."""
    assert build([piece(0, "a", None, '{"u":1}')])[0].error == "the call names no tool"


@pytest.mark.parametrize("pieces", [None, "x", [None, 3], {"a": 1}, [{}], [{"function": None, "index": "0"}]])
def test_nonsense_is_no_crash(pieces: object) -> None:
    """Anything may stand where calls should."""
    assembler = CallAssembler()
    assembler.add(pieces)
    assert all(made.error for made in assembler.build(cut=False))


def test_an_unstreamed_message_holds_whole_calls() -> None:
    """Every entry of a whole message is a call of its own, with or without ids."""
    assembler = CallAssembler()
    assembler.add_whole([{"function": {"name": "f", "arguments": ""}}, {"function": {"name": "f", "arguments": "{}"}}])
    assert [c.id for c in assembler.build(cut=False)] == ["call_1", "call_2"]
