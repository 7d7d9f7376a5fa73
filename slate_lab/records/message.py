"""What goes to a model and what comes back, in no provider's terms."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from slate_lab.records.call import Usage


class Route(Struct, frozen=True):
    """One exact provider and model, e.g. `openai/gpt-5`."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


class ToolSpec(Struct, frozen=True, kw_only=True):
    """A tool as a model sees it: a name, one paragraph, and a JSON Schema of its arguments (an object)."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolCall(Struct, frozen=True, kw_only=True):
    """One call that a model asks for.

    Attributes:
        id: the provider's id, or one made by the lab where it gives none.
        name: the tool.
        arguments: the decoded arguments; `{}` where the model sent none.
        error: why the arguments cannot be used (cut by the length limit, not JSON); the tool is then not run.
    """

    id: str
    name: str
    arguments: dict[str, Any] = {}
    error: str | None = None


class Carried(Struct, frozen=True, kw_only=True):
    """What a provider wants back, untouched, with a turn that its model wrote.

    Attributes:
        route: the one route it may be sent to.
        parts: the turn in order: opaque items (reasoning, signatures) as they came, pieces of text, and for a call its
            number in `calls`.
    """

    route: str
    parts: tuple[dict[str, Any] | str | int, ...]


class Message(Struct, frozen=True, kw_only=True):
    """One turn of a conversation; `tool` messages answer the call `call_id` of the tool `name`.

    `carried` is the `Reply.carried` of the answer that an assistant's turn was made of.
    """

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    name: str | None = None
    carried: Carried | None = None


class Request(Struct, frozen=True, kw_only=True):
    """One request to a model.

    Attributes:
        messages: the conversation; system messages first.
        tools: tools the model may call; empty means none are offered.
        schema: a JSON Schema the answer must follow (needs the capability), or None for free text.
        max_output_tokens: the most the model may write, or None for the route's own maximum.
        effort: one of the effort words, or None where the route has none.
        temperature, seed: sampling, absent when None.
        deadline_s: seconds for the whole request with its retries.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    schema: dict[str, Any] | None = None
    max_output_tokens: int | None = None
    effort: str | None = None
    temperature: float | None = None
    seed: int | None = None
    deadline_s: float | None = None


class Reply(Struct, frozen=True, kw_only=True):
    """One answer.

    Attributes:
        text: what the model wrote (reasoning excluded).
        calls: the tool calls, in order.
        finish: why it ended: `stop`, `tool_calls`, `length`, `content_filter`, `other`.
        usage: tokens in disjoint buckets; buckets the provider did not report are None.
        response_id: the provider's id of this answer, if it gave one.
        model: the model that says it answered, if it said so.
        raw_usage: the provider's own usage payload.
        recorded: the answer came from a recording.
        first_token_ns: when the first content arrived, None if it was not streamed.
        carried: what the provider wants back with this turn; put it into the `Message` that continues it.
        ignored: events of kinds that the protocol's reader does not know, by name; they were left out.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    finish: Literal["stop", "tool_calls", "length", "content_filter", "other"] = "stop"
    usage: Usage = Usage()
    response_id: str | None = None
    model: str | None = None
    raw_usage: dict[str, Any] | None = None
    recorded: bool = False
    first_token_ns: int | None = None
    carried: Carried | None = None
    ignored: dict[str, int] = {}
