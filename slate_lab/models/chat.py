"""The `chat` protocol: OpenAI chat completions, as spoken by OpenAI and by nearly every other server.

In: a `Request`. Out: a `Reply`, or a `Fault`. Made by `connect`.
"""

from __future__ import annotations

from typing import Any

from slate_lab.models.assemble import Draft
from slate_lab.models.chatbody import chat_body, dialect_of
from slate_lab.models.chatreply import ChatDraft
from slate_lab.models.wire import WireModel
from slate_lab.records import Request

__all__ = ["ChatModel"]


class ChatModel(WireModel):
    """One model behind a chat-completions address; the key is sent as a bearer token."""

    path = "/chat/completions"

    def _body(self, request: Request) -> dict[str, Any]:
        return chat_body(
            request,
            self.route.model,
            capabilities=self.capabilities,
            dialect=dialect_of(self._url.host),
            stream=self._stream,
        )

    def _reader(self, request: Request) -> Draft:
        return ChatDraft(clock=self._clock, hidden_reasoning=dialect_of(self._url.host).hidden_reasoning)
