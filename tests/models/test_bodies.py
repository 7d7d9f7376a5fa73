"""What goes out over each protocol, and what is refused before it does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from models.speech import ALL, CHAT, MESSAGES, RESPONSES, ROUTE, Speech
from slate_lab.errors import ModelError
from slate_lab.models.chatbody import chat_body, dialect_of
from slate_lab.models.messagesbody import Manner, manner_of, messages_body
from slate_lab.models.protocol import Capabilities
from slate_lab.models.responsesbody import responses_body
from slate_lab.models.transport import open_transport
from slate_lab.records import Carried, Message, Request, Route, ToolCall, ToolSpec

every = pytest.mark.parametrize("speech", ALL, ids=lambda speech: speech.name)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"type": "integer"}},
    "required": ["x"],
    "additionalProperties": False,
}
TOOL = ToolSpec(name="look", description="Look.", parameters={"type": "object", "properties": {}})
CALLS = (ToolCall(id="a", name="look", arguments={"k": "ü"}), ToolCall(id="b", name="look"))
TALK = (
    Message(role="system", text="Be brief."),
    Message(role="system", text="Be kind."),
    Message(role="user", text="Look."),
    Message(role="assistant", text="Well.", calls=CALLS),
    Message(role="tool", text="seen \ud83c", call_id="a", name="look"),
    Message(role="tool", text="", call_id="b", name="look"),
    Message(role="user", text="Go on."),
)
THINKER = Capabilities(efforts=("off", "minimal", "low", "medium", "high", "xhigh", "max"))


def body(speech: Speech, request: Request, capabilities: Capabilities | None = None) -> dict[str, Any]:
    """The body that a model of the protocol sends."""
    made = speech.model(
        ROUTE, "https://x.invalid/v1", transport=open_transport(), capabilities=capabilities or Capabilities()
    )
    return msgspec.json.decode(made._request(request).content)


def claude(request: Request, manner: Manner, capabilities: Capabilities = THINKER) -> dict[str, Any]:
    """A messages body in some manner."""
    return messages_body(request, ROUTE, capabilities=capabilities, manner=manner, stream=True)


def test_a_conversation_over_responses() -> None:
    """System turns are the instructions; calls and results are items; lone surrogates are replaced."""
    sent = body(RESPONSES, Request(messages=TALK, tools=(TOOL,)))
    assert sent["instructions"] == "Be brief.\n\nBe kind."
    assert sent["input"] == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look."}]},
        {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Well.", "annotations": []}],
        },
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": '{"k":"ü"}'},
        {"type": "function_call", "call_id": "b", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "seen \ufffd"},
        {"type": "function_call_output", "call_id": "b", "output": ""},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on."}]},
    ]
    assert sent["tools"][0] == {"type": "function", "strict": False, **msgspec.to_builtins(TOOL)}
    assert (sent["store"], sent["stream"]) == (False, True)
    assert "include" not in sent


def test_a_conversation_over_messages() -> None:
    """System turns stand apart; results are a user's turn; neighbours are one turn; empty text is left out."""
    sent = body(MESSAGES, Request(messages=TALK, tools=(TOOL,)))
    assert sent["system"] == "Be brief.\n\nBe kind."
    assert sent["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Look."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Well."},
                {"type": "tool_use", "id": "a", "name": "look", "input": {"k": "ü"}},
                {"type": "tool_use", "id": "b", "name": "look", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "seen \ufffd"},
                {"type": "tool_result", "tool_use_id": "b", "content": ""},
                {"type": "text", "text": "Go on."},
            ],
        },
    ]
    assert sent["tools"] == [{"name": "look", "description": "Look.", "input_schema": TOOL.parameters}]
    assert sent["max_tokens"] == 8192


@pytest.mark.parametrize(
    ("speech", "write"), [(RESPONSES, responses_body), (MESSAGES, None)], ids=["responses", "messages"]
)
def test_what_the_model_thought_goes_back_to_its_own_route(speech: Speech, write: Any) -> None:
    """Sealed reasoning goes back in its place, untouched; another route gets text and calls alone."""
    sealed = {"type": "reasoning", "encrypted_content": "S==", "summary": []}
    carried = Carried(route=str(ROUTE), parts=(sealed, "Well.", 0, sealed, 1))
    turn = Message(role="assistant", text="Well.", calls=CALLS, carried=carried)
    request = Request(messages=(Message(role="user", text="Look."), turn))

    def items(route: Route) -> list[dict[str, Any]]:
        if write is not None:
            return write(request, route, capabilities=THINKER, stream=True)["input"][1:]
        made = messages_body(request, route, capabilities=THINKER, manner=Manner(), stream=True)
        return made["messages"][1]["content"]

    kinds = {"responses": ("message", "function_call"), "messages": ("text", "tool_use")}[speech.name]
    said, called = kinds
    assert [item["type"] for item in items(ROUTE)] == ["reasoning", said, called, "reasoning", called]
    assert items(ROUTE)[0] == sealed
    assert [item["type"] for item in items(Route("other", "m"))] == [said, called, called]
    if speech is MESSAGES:
        bound = claude(request, Manner(adaptive=True, bound=True))["messages"][1]["content"]
        assert [block["type"] for block in bound] == [said, called, called]


@every
def test_a_schema(speech: Speech) -> None:
    """Each protocol is held to a schema in its own way."""
    sent = body(speech, Request(messages=TALK[2:3], schema=SCHEMA))
    form = {"name": "answer", "schema": SCHEMA, "strict": True}
    if speech is CHAT:
        assert sent["response_format"] == {"type": "json_schema", "json_schema": form}
    elif speech is RESPONSES:
        assert sent["text"] == {"format": {"type": "json_schema", **form}}
    else:
        assert sent["tools"][0]["input_schema"] == SCHEMA
        assert sent["tool_choice"] == {"type": "tool", "name": sent["tools"][0]["name"]}


@pytest.mark.parametrize(
    ("host", "model", "manner"),
    [
        ("api.anthropic.com", "claude-sonnet-5-5", Manner(adaptive=True, formats=True, caches=True, bound=True)),
        ("api.anthropic.com", "claude-sonnet-5", Manner(adaptive=True, formats=True, caches=True)),
        ("api.anthropic.com", "claude-opus-4-6", Manner(adaptive=True, formats=True, caches=True)),
        ("api.anthropic.com", "claude-sonnet-4-5-20250929", Manner(caches=True)),
        ("api.anthropic.com", "claude-sonnet-4-20250514", Manner(caches=True)),
        ("api.anthropic.com", "claude-3-5-haiku-latest", Manner(caches=True)),
        ("127.0.0.1", "claude-sonnet-5-5", Manner()),
    ],
)
def test_how_a_model_is_asked(host: str, model: str, manner: Manner) -> None:
    """Newer models of Anthropic think by an effort word and keep to a format; older and other ones by a budget."""
    assert manner_of(host, model) == manner


def test_efforts_over_messages() -> None:
    """A budget leaves room for words under the cap; adaptive thinking takes the word; off is said; none is silent."""
    ask = Request(messages=TALK[2:3], effort="high", max_output_tokens=4096, temperature=0.0)
    by_budget = claude(ask, Manner())
    assert by_budget["thinking"] == {"type": "enabled", "budget_tokens": 3072}
    assert "temperature" not in by_budget
    tight = claude(msgspec.structs.replace(ask, max_output_tokens=100), Manner())
    assert (tight["thinking"]["budget_tokens"], tight["max_tokens"]) == (1024, 2048)
    adaptive = claude(msgspec.structs.replace(ask, schema=SCHEMA), Manner(adaptive=True, formats=True))
    assert adaptive["thinking"] == {"type": "adaptive"}
    assert adaptive["output_config"] == {"effort": "high", "format": {"type": "json_schema", "schema": SCHEMA}}
    off = claude(msgspec.structs.replace(ask, effort="off"), Manner())
    assert (off["thinking"], off["temperature"]) == ({"type": "disabled"}, 0.0)
    silent = claude(msgspec.structs.replace(ask, effort="off"), Manner(), Capabilities())
    assert "thinking" not in silent


def test_efforts_over_responses() -> None:
    """The word is the effort, `off` is none; sealed reasoning is asked for unless thinking is off."""
    ask = Request(messages=TALK[2:3], effort="high", temperature=0.0)
    sent = body(RESPONSES, ask, THINKER)
    assert (sent["reasoning"], sent["include"]) == ({"effort": "high"}, ["reasoning.encrypted_content"])
    assert "temperature" not in sent
    sent = body(RESPONSES, msgspec.structs.replace(ask, effort="off"), THINKER)
    assert (sent["reasoning"], sent["temperature"]) == ({"effort": "none"}, 0.0)
    assert "include" not in sent


def test_a_prompt_is_cached_where_it_stays_the_same() -> None:
    """In a conversation with tools the system turn and the last result are marked; a single question is not."""
    marked = claude(Request(messages=TALK, tools=(TOOL,)), Manner(caches=True))
    assert marked["system"][-1]["cache_control"] == {"type": "ephemeral"}
    last = marked["messages"][-1]["content"]
    assert ["cache_control" in block for block in last] == [False, True, False]
    assert "cache_control" not in str(claude(Request(messages=TALK), Manner(caches=True)))
    assert "cache_control" not in str(claude(Request(messages=TALK, tools=(TOOL,)), Manner()))


@every
def test_one_tool_at_a_time_and_a_cap(speech: Speech) -> None:
    """A route without parallel tools says so where the protocol can; the cap has the protocol's name."""
    sent = body(speech, Request(messages=TALK, tools=(TOOL,), max_output_tokens=7), Capabilities(parallel_tools=False))
    if speech is RESPONSES:
        assert (sent["parallel_tool_calls"], sent["max_output_tokens"]) == (False, 7)
    elif speech is MESSAGES:
        assert (sent["tool_choice"]["disable_parallel_tool_use"], sent["max_tokens"]) == (True, 7)
    else:
        assert (sent["parallel_tool_calls"], sent["max_tokens"]) == (False, 7)
    assert "parallel_tool_calls" not in body(speech, Request(messages=TALK), Capabilities(parallel_tools=False))


@pytest.mark.parametrize("host", ["generativelanguage.googleapis.com", "embedded.invalid"])
def test_one_tool_at_a_time_is_not_said_where_the_word_is_unknown(host: str) -> None:
    """Gemini refuses names that it does not know; the embedded server calls one tool at a time by itself."""
    request = Request(messages=TALK, tools=(TOOL,))
    able = Capabilities(parallel_tools=False)
    assert "parallel_tool_calls" not in chat_body(
        request, "m", capabilities=able, dialect=dialect_of(host), stream=True
    )


@every
@pytest.mark.parametrize(
    ("request_", "capabilities", "says"),
    [
        pytest.param(Request(messages=TALK, tools=(TOOL,)), Capabilities(tools=False), "calls no tools", id="tools"),
        pytest.param(Request(messages=TALK, schema=SCHEMA), Capabilities(schema=False), "JSON Schema", id="schema"),
        pytest.param(Request(messages=TALK, effort="max"), Capabilities(), "has no effort 'max'", id="effort"),
        pytest.param(
            Request(messages=(Message(role="user", text=[{"type": "image_url", "image_url": {"url": "x"}}]),)),  # type: ignore[arg-type]
            Capabilities(),
            "only text is sent to models here, no images",
            id="images",
        ),
    ],
)
def test_what_a_route_cannot_do_is_refused(
    speech: Speech, request_: Request, capabilities: Capabilities, says: str
) -> None:
    """Before anything is sent, and in words."""
    with pytest.raises(ModelError, match=says) as caught:
        body(speech, request_, capabilities)
    assert caught.value.kind == "bad-request"


@pytest.mark.parametrize("speech", [RESPONSES, MESSAGES], ids=lambda speech: speech.name)
def test_a_seed_is_refused_where_the_protocol_has_none(speech: Speech) -> None:
    """A sampling parameter is never dropped in silence."""
    with pytest.raises(ModelError, match="takes no seed"):
        body(speech, Request(messages=TALK, seed=1))


@every
def test_the_same_request_is_the_same_bytes(speech: Speech) -> None:
    """So that a recording answers it."""
    request = Request(messages=TALK, tools=(TOOL,), schema=SCHEMA, temperature=0.0)
    assert body(speech, request) == body(speech, request)
    assert list(body(speech, request)) == list(body(speech, request))


@every
def test_the_key_goes_where_the_protocol_wants_it(speech: Speech) -> None:
    """A bearer token, or `x-api-key` with the version of the protocol."""
    from slate_lab.models.redact import Secret

    made = speech.model(
        ROUTE,
        "https://x.invalid/v1/",
        transport=open_transport(),
        capabilities=Capabilities(),
        key=Secret("k-123456789"),
    )
    sent = made._request(Request(messages=TALK))
    assert sent.url.path == "/v1" + speech.model.path
    if speech is MESSAGES:
        assert (sent.headers["x-api-key"], sent.headers["anthropic-version"]) == ("k-123456789", "2023-06-01")
        assert "authorization" not in sent.headers
    else:
        assert sent.headers["authorization"] == "Bearer k-123456789"
