"""The `messages` protocol: Anthropic Messages, also spoken by llama.cpp's server, vLLM and others.

In: a `Request`. Out: a `Reply`, or a `Fault`. Made by `connect`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slate_lab.models.assemble import Draft
from slate_lab.models.messagesbody import manner_of, messages_body
from slate_lab.models.messagesreply import MessagesDraft
from slate_lab.models.redact import Secret
from slate_lab.models.wire import WireModel
from slate_lab.records import Request

__all__ = ["MessagesModel"]

VERSION = "2023-06-01"


class MessagesModel(WireModel):
    """One model behind a messages address; the key is sent as `x-api-key`."""

    path = "/messages"

    def _body(self, request: Request) -> dict[str, Any]:
        return messages_body(
            request,
            self.route,
            capabilities=self.capabilities,
            manner=manner_of(self._url.host, self.route.model),
            stream=self._stream,
        )

    def _reader(self, request: Request) -> Draft:
        return MessagesDraft(route=self.route, clock=self._clock)

    def _protocol_headers(self) -> Mapping[str, str]:
        return {"anthropic-version": VERSION}

    def _credentials(self, key: Secret) -> Mapping[str, str]:
        return {"x-api-key": key.reveal()}
