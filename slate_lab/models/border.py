"""Where answers enter the lab: everything a `Reply` holds is made plain, so that it is trusted inside.

In: a reply of any model (a protocol's, a scripted one, one written by a user), and what hides secrets in text. Out: the
same reply whose texts, calls and numbers can be stored and sent. Pure. Called by the protocols and the scripted
model for what they make, and by the gate for every model.
"""

from __future__ import annotations

from slate_lab.models.carry import plain_carried
from slate_lab.models.plain import Hide, as_is, plain_label, plain_payload, plain_text
from slate_lab.models.toolcalls import apart, plain_call
from slate_lab.models.usage import plain_count, plain_usage
from slate_lab.records import Reply

__all__ = ["plain_reply"]

_FINISHES = frozenset({"stop", "tool_calls", "length", "content_filter", "other"})


def plain_reply(reply: Reply, *, hide: Hide = as_is) -> Reply:
    """`reply`, made plain.

    Raises:
        TypeError: it is no reply at all, or its text or calls are of another type.
    """
    if not isinstance(reply, Reply):
        raise TypeError(f"a model answers with a Reply, not {type(reply).__name__}")
    if not isinstance(reply.text, str):
        raise TypeError(f"the text of a Reply is a str, not {type(reply.text).__name__}")
    finish = reply.finish if isinstance(reply.finish, str) and reply.finish in _FINISHES else "other"
    return Reply(
        text=plain_text(reply.text, hide=hide),
        calls=apart([plain_call(call, hide=hide) for call in reply.calls]),
        finish=finish,
        usage=plain_usage(reply.usage),
        response_id=plain_label(reply.response_id, hide=hide) or None,
        model=plain_label(reply.model, hide=hide) or None,
        raw_usage=plain_payload(reply.raw_usage, hide=hide),
        recorded=bool(reply.recorded),
        first_token_ns=plain_count(reply.first_token_ns, most=2**63 - 1),
        carried=plain_carried(reply.carried, hide=hide),
        ignored={plain_label(kind, hide=hide): plain_count(n) or 0 for kind, n in reply.ignored.items()},
    )
