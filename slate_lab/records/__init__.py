"""The records of the lab: frozen, plain, parsed once at the border and trusted inside.

They hold values and no behaviour beyond reading themselves. Times are integer nanoseconds since the epoch, UTC
(`*_ns`); durations are seconds (`*_s`); money is integer nano-dollars (`*_nusd`) with `Decimal` views (`*_usd`);
counts of tokens end in `_tokens`; absent is None, never 0.
"""

from __future__ import annotations

from slate_lab.records.action import Action, Limits, Progress, Thread, ThreadState
from slate_lab.records.approval import Approval, ApprovalState
from slate_lab.records.call import Attempt, Call, CallKind, Cost, Event, Hop, Usage, usd
from slate_lab.records.episode import SECTIONS, Compression, Episode, Evidence, Fact, FactKind, Finding
from slate_lab.records.ids import episode_id, is_episode_id, is_thread_id, near, thread_of
from slate_lab.records.message import Carried, Message, Reply, Request, Route, ToolCall, ToolSpec
from slate_lab.records.turn import SLOT_EVENTS, Delivery, HistoryEntry, SlotEvent, SlotEventKind, Turn

__all__ = [
    "SECTIONS",
    "SLOT_EVENTS",
    "Action",
    "Approval",
    "ApprovalState",
    "Attempt",
    "Call",
    "CallKind",
    "Carried",
    "Compression",
    "Cost",
    "Delivery",
    "Episode",
    "Event",
    "Evidence",
    "Fact",
    "FactKind",
    "Finding",
    "HistoryEntry",
    "Hop",
    "Limits",
    "Message",
    "Progress",
    "Reply",
    "Request",
    "Route",
    "SlotEvent",
    "SlotEventKind",
    "Thread",
    "ThreadState",
    "ToolCall",
    "ToolSpec",
    "Turn",
    "Usage",
    "episode_id",
    "is_episode_id",
    "is_thread_id",
    "near",
    "thread_of",
    "usd",
]
