"""The `responses` protocol: OpenAI Responses, also spoken by llama.cpp's server, vLLM and others.

In: a `Request`. Out: a `Reply`, or a `Fault`. Nothing is stored at the provider: each request holds the whole
conversation. Made by `connect`.
"""

from __future__ import annotations

from typing import Any

from slate_lab.models.assemble import Draft
from slate_lab.models.responsesbody import output_cap, responses_body
from slate_lab.models.responsesreply import ResponsesDraft
from slate_lab.models.wire import WireModel
from slate_lab.records import Request

__all__ = ["ResponsesModel"]


class ResponsesModel(WireModel):
    """One model behind a responses address; the key is sent as a bearer token."""

    path = "/responses"

    def _body(self, request: Request) -> dict[str, Any]:
        return responses_body(request, self.route, capabilities=self.capabilities, stream=self._stream)

    def _reader(self, request: Request) -> Draft:
        return ResponsesDraft(route=self.route, cap=output_cap(request, self.capabilities), clock=self._clock)
