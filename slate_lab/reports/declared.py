"""The columns of every frame, declared once: what is read, in which dtype and unit, and what it means.

Out: `FRAMES`, by name. Read by `frames`. The SQL names the views of the store.
"""

from __future__ import annotations

from typing import get_args, get_type_hints

from slate_lab.errors import ModelErrorKind
from slate_lab.records import CallKind, Compression, Reply, ThreadState
from slate_lab.records.turn import SLOT_EVENTS
from slate_lab.reports.columns import Column, Declared, money, seconds, word
from slate_lab.reports.memory import MEMORY_FRAMES
from slate_lab.slots.pipelines import LANES, PHASES

__all__ = ["FRAMES", "OUTCOMES", "SUMMARY"]

OUTCOMES = ("ok", "transient", "error", *get_args(ModelErrorKind))
FINISHES = get_args(get_type_hints(Reply)["finish"])


def _text(name: str, meaning: str, *reads: str) -> Column:
    return Column(name, "text", meaning, reads=reads)


def _count(name: str, meaning: str, unit: str = "", *reads: str) -> Column:
    return Column(name, "count", meaning, unit, reads=reads)


def _tokens(name: str, meaning: str, *reads: str) -> Column:
    return _count(name, meaning, "tokens", *reads)


def _flag(name: str, meaning: str, *reads: str) -> Column:
    return Column(name, "flag", meaning, reads=reads)


def _time(name: str, meaning: str, *reads: str) -> Column:
    return Column(name, "time", meaning, reads=reads)


def _route(name: str, meaning: str, prefix: str = "") -> Column:
    return Column(name, "joined", meaning, reads=(f"{prefix}provider", f"{prefix}model"))


def _all_input(prefix: str = "") -> Column:
    buckets = ("input_fresh", "cache_read", "cache_write_5m", "cache_write_1h")
    return _tokens("input_tokens", "All input, cached or not.", *(f"{prefix}{b}" for b in buckets))


def _all_output(prefix: str = "") -> Column:
    meaning = "All output that is billed: visible and reasoning."
    return _tokens("output_tokens", meaning, f"{prefix}output", f"{prefix}reasoning")


def _usage(prefix: str = "") -> tuple[Column, ...]:
    return (
        _all_input(prefix),
        _all_output(prefix),
        _tokens("input_fresh_tokens", "Input read without a cache.", f"{prefix}input_fresh"),
        _tokens("cache_read_tokens", "Input read from a cache.", f"{prefix}cache_read"),
        _tokens("cache_write_5m_tokens", "Input written into a cache for five minutes.", f"{prefix}cache_write_5m"),
        _tokens("cache_write_1h_tokens", "Input written into a cache for an hour.", f"{prefix}cache_write_1h"),
        _tokens("visible_tokens", "Visible output: text and tool calls.", f"{prefix}output"),
        _tokens("reasoning_tokens", "Hidden output, billed as output.", f"{prefix}reasoning"),
        _flag("flagged", "The reported parts contradicted each other and were clamped.", f"{prefix}flagged"),
    )


_PLACE = """iif(state = 'queued', (SELECT count(*) FROM threads AS q WHERE q.state IN ('queued', 'running')
    AND q.state = 'queued' AND q.session = threads.session AND q.n <= threads.n), NULL)"""
_UNTIL = "coalesce(started_ns, ended_ns, CAST((julianday('now') - 2440587.5) * 86400e9 AS INTEGER))"
_BY_KIND = ", ".join(
    f"""iif(sum(kind = '{kind}') > sum(kind = '{kind}' AND cost_nusd IS NOT NULL), NULL,
    sum(iif(kind = '{kind}', cost_nusd, NULL))) AS {kind}_nusd"""
    for kind in get_args(CallKind)
)
_SPENT = f"""(SELECT thread_n AS of_thread, sum(kind = 'compaction') AS compactions, {_BY_KIND} FROM calls
    GROUP BY thread_n) ON of_thread = n"""  # noqa: S608 - declared names only

_THREADS = Declared(
    "threads",
    "one thread",
    (
        _text("id", "The thread, `t12`."),
        _text("name", "The label a person gave it."),
        _text("label", "The name, or the first line of the task."),
        _text("type", "Its thread type: selects tools and charter."),
        word("state", get_args(ThreadState), "Where it stands; the last three are final."),
        _text("code", "Why it failed or was cancelled, a stable word."),
        _text("detail", "The same for a person."),
        _flag("truncated", "The provider's length limit ended the last answer."),
        _text("logical", "The logical model."),
        _route("route", "The provider and model that were granted."),
        _text("ran_route", "The route that answered its worker last; another than `route` if recovery moved it."),
        _count("hops", "Steps of recovery from one route to another.", "hops", "hop_count"),
        _text("session", "The lab that dispatched it."),
        _text("episode", "The id of its episode, if it has one."),
        _time("created", "When it was admitted.", "created_ns"),
        _time("started", "When its worker started.", "started_ns"),
        _time("ended", "When it settled.", "ended_ns"),
        _count("position", "Its place in the queue of its lab while it waits, 1 is next.", "", _PLACE),
        _flag("holds_permit", "It holds one of the lab's permits now.", "state = 'running'"),
        seconds("waited_s", "created_ns", _UNTIL, "From admission to the start, or until now while it waits."),
        seconds("ran_s", "started_ns", "ended_ns", "From the start to the end, compression included."),
        _tokens("window_tokens", "What the route's context holds.", "window"),
        _count("facts_omitted", "Characters of facts left out by the caps.", "characters"),
        *money("worker_usd", "worker_nusd", "The worker's own calls; null if there is none or a price is unknown."),
        *money("compressor_usd", "compressor_nusd", "The calls that made the episode, with the same nulls."),
        *money("compaction_usd", "compaction_nusd", "The calls that shortened its history, with the same nulls."),
        _count("compactions", "How often its history was shortened.", "", "compactions"),
    ),
    f"threads LEFT JOIN {_SPENT} ORDER BY n",
)

_EPISODES = Declared(
    "episodes",
    "one episode",
    (
        _text("id", "The episode, `t12.e1`."),
        _text("thread", "The thread it ends."),
        _text("name", "The label a person gave the thread."),
        _text("type", "The thread type."),
        word("status", ("ok", "failed"), "Whether the action succeeded."),
        _text("code", "Why it failed, a stable word."),
        _flag("truncated", "The provider's length limit ended the last answer."),
        word(
            "compression",
            get_args(Compression),
            "How it was made: by a model, from the worker's own words, or in fixed form without a model.",
        ),
        _text("logical", "The logical model."),
        _text("requested_route", "The route that was granted."),
        _text("ran_route", "The route that answered."),
        _time("created", "When it was made.", "created_ns"),
        seconds("ran_s", "started_ns", "ended_ns", "From the worker's start to its end."),
        _count("facts", "Facts that were captured.", "facts", "fact_count"),
        _count("omitted_chars", "Characters cut from the facts by the caps.", "characters", "omitted"),
        _count("context", "Earlier episodes it was given.", "episodes", "context_count"),
        _count("findings", "Key findings.", "findings", "finding_count"),
        _count("artifacts", "Files it changed.", "files", "artifact_count"),
        _count("issues", "Open issues.", "issues", "issue_count"),
        _count("lost", "Identifiers of the facts that the episode no longer contains.", "identifiers", "lost_count"),
        _count("invented", "Numbers and names that occur in no fact.", "identifiers", "invented_count"),
        _tokens("facts_tokens", "The facts, estimated with the lab's encoding."),
        _tokens("episode_tokens", "The episode, estimated with the lab's encoding."),
        Column(
            "ratio",
            "number",
            "Fact tokens per episode token.",
            reads=("iif(facts_tokens > 0 AND episode_tokens > 0, facts_tokens * 1.0 / episode_tokens, NULL)",),
        ),
        *money("cost_usd", "cost_nusd", "All calls of the thread; null if any price is unknown."),
        _text("hash", "SHA-256 of the content, what later briefs cite."),
    ),
    "episodes ORDER BY thread_n",
)

_CALLS = Declared(
    "calls",
    "one request to a model",
    (
        _count("id", "The call.", ""),
        _text("thread", "The thread it was made for."),
        word("kind", get_args(CallKind), "Who asked: the worker, the compressor, a compaction."),
        _text("logical", "The logical model."),
        _route("route", "The provider and model that ran."),
        word("outcome", OUTCOMES, "`ok`, `cancelled`, or the kind of the error that ended it."),
        word("finish", FINISHES, "Why the answer ended."),
        _time("started", "When it was first asked.", "started_ns"),
        seconds("took_s", "started_ns", "ended_ns", "From the first request to the end, waiting included."),
        _count("attempts", "HTTP exchanges.", "attempts"),
        _count("hop", "0 for the route asked first, 1, 2, ... for those that recovery went on to."),
        _text("cause", "Why it was asked instead of the route before it; null for the first."),
        *_usage(),
        *money("cost_usd", "cost_nusd", "All attempts; null if any price is unknown."),
        _text("price", "Where the price came from."),
        _text("error", "What went wrong, for a person."),
    ),
    "calls ORDER BY id",
)

MARKS = ("exact", "estimated", "unknown")
_BRIEFED = """CASE WHEN json_extract(p.value, '$.tokens') IS NULL THEN 'unknown'
    WHEN json_extract(p.value, '$.exact') THEN 'exact' ELSE 'estimated' END"""

_ATTEMPTS = Declared(
    "attempts",
    "one HTTP exchange, or one scripted answer",
    (
        _count("call", "The call it belongs to.", "", "a.call"),
        _count("n", "1, 2, ... within the call.", "", "a.n"),
        _route("route", "The provider and model that were asked.", "c."),
        _count("hop", "0 for the route asked first, 1, 2, ... for those that recovery went on to.", "", "c.hop"),
        _text("cause", "Why this route was asked instead of the one before it.", "c.cause"),
        word("outcome", OUTCOMES, "`ok`, `cancelled`, or the kind of the error that ended it.", "a.outcome"),
        _count("status", "The HTTP status, if one arrived.", "", "a.status"),
        _time("started", "When the request was sent.", "a.started_ns"),
        seconds("took_s", "a.started_ns", "a.ended_ns", "From the request to the end of the answer."),
        seconds("first_token_s", "a.started_ns", "a.first_token_ns", "From the request to the first content."),
        Column("waited_s", "number", "Waited before it: pacing and back-off.", "s", reads=("a.waited_s",)),
        Column("paced_s", "number", "Of it: pacing, or waiting for a place.", "s", reads=("paced_s",)),
        Column("retried_s", "number", "Of it: back-off before asking again.", "s", reads=("retried_s",)),
        *_usage("a."),
        word("counted", MARKS, "`exact`: the provider's counts; `estimated`: the lab's own; `unknown`.", "a.counted"),
        _flag("recorded", "The answer came from a recording; it cost nothing now.", "a.recorded"),
        _text("response_id", "The provider's id of the answer.", "a.response_id"),
        _text("error", "What went wrong, for a person.", "a.error"),
    ),
    "attempts AS a JOIN calls AS c ON c.id = a.call ORDER BY a.call, a.n",
)

_COSTS = Declared(
    "costs",
    "one attempt, with what it cost and what it was for",
    (
        _text("thread", "The thread it was made for.", "c.thread"),
        _text("type", "The thread type.", "t.type"),
        word("kind", get_args(CallKind), "Who asked: the worker, the compressor, a compaction.", "c.kind"),
        _count("call", "The call it belongs to.", "", "c.id"),
        _count("attempt", "1, 2, ... within the call.", "", "a.n"),
        _text("logical", "The logical model.", "c.logical"),
        _route("route", "The provider and model that ran.", "c."),
        word("outcome", OUTCOMES, "`ok`, `cancelled`, or the kind of the error that ended it.", "a.outcome"),
        _time("started", "When the request was sent.", "a.started_ns"),
        _all_input("a."),
        _all_output("a."),
        *money("cost_usd", "a.cost_nusd", "What it cost now; 0 for a recording or an embedded model, null if unknown."),
        _text("price", "Where the price came from, with the release of the list.", "a.price"),
        _text(
            "price_date",
            "The day whose price was taken, UTC; null where the price is unknown.",
            "iif(a.price IS NULL, NULL, date(a.started_ns / 1000000000, 'unixepoch'))",
        ),
        _flag("recorded", "The answer came from a recording.", "a.recorded"),
        *money("recorded_cost_usd", "a.recorded_nusd", "What a recorded answer cost when it was recorded."),
    ),
    "attempts AS a JOIN calls AS c ON c.id = a.call JOIN threads AS t ON t.n = c.thread_n ORDER BY a.call, a.n",
)

_CONTEXT = Declared(
    "context",
    "one part of a thread's brief",
    (
        _text("thread", "The thread that was briefed.", "t.id"),
        _count("part", "1, 2, ... in the order of the prompt.", "", "p.key + 1"),
        _text(
            "source",
            "What it is: `preamble`, `charter`, an episode's id, `variables`, `task`, `tools`.",
            "json_extract(p.value, '$.source')",
        ),
        _tokens("tokens", "Its size.", "json_extract(p.value, '$.tokens')"),
        _flag("exact", "The provider counted it; else it is estimated.", "json_extract(p.value, '$.exact')"),
        word("counted", MARKS, "`exact`: by the provider or its tokenizer; `estimated`; `unknown`.", _BRIEFED),
        _tokens("window_tokens", "What the route's context holds.", "t.window"),
        Column(
            "share",
            "number",
            "Its part of the window, 0 to 1.",
            reads=("iif(t.window > 0, json_extract(p.value, '$.tokens') * 1.0 / t.window, NULL)",),
        ),
    ),
    "threads AS t, json_each(t.brief) AS p WHERE t.brief IS NOT NULL ORDER BY t.n, p.key",
)

_EVENTS = Declared(
    "events",
    "one thing that happened",
    (
        _count("id", "The event.", ""),
        _time("at", "When.", "at_ns"),
        _text("kind", "What, a stable word."),
        _text("thread", "The thread it is about, if any."),
        _text("data", "What else is known, as JSON."),
    ),
    "events ORDER BY id",
)

_SLOTS = Declared(
    "slots",
    "one thing that happened to a slot in a turn",
    (
        _count("id", "The event.", "", "e.id"),
        _time("at", "When.", "e.at_ns"),
        _text("session", "The session, `c2`.", "e.session"),
        _text("thread", "The thread of the turn; none for what ran before the first turn.", "'t' || t.thread_n"),
        _count("turn", "The number of the turn in its session; 0 before the first.", "", "e.turn"),
        _text("slot", "The slot's id."),
        word("phase", PHASES, "When it runs."),
        word("lane", LANES, "Beside which others."),
        word("what", SLOT_EVENTS, "What happened."),
        Column("took_s", "number", "Since it was started.", "s", reads=("e.duration_ns / 1e9",)),
        _text("detail", "The error, the type that was returned, or the capability.", "e.detail"),
        _flag("allowed", "Whether the capability is granted."),
        _text("traceback", "Of a failure."),
    ),
    "slots AS e LEFT JOIN turns AS t ON t.chat = e.chat AND t.n = e.turn ORDER BY e.id",
)

SUMMARY = Declared(
    "summary",
    "one logical model on one route, for one thread type",
    (
        _text("logical", "The logical model.", "c.logical"),
        _route("route", "The provider and model that ran.", "c."),
        _text("type", "The thread type.", "t.type"),
        _count("threads", "Threads that asked it.", "threads", "count(DISTINCT c.thread_n)"),
        _count("calls", "Requests.", "calls", "count(*)"),
        _count("attempts", "HTTP exchanges.", "attempts", "sum(c.attempts)"),
        _tokens(
            "input_tokens",
            "All input that was reported.",
            "sum(c.input_fresh)",
            "sum(c.cache_read)",
            "sum(c.cache_write_5m)",
            "sum(c.cache_write_1h)",
        ),
        _tokens("output_tokens", "All output that was reported.", "sum(c.output)", "sum(c.reasoning)"),
        _count("unpriced", "Calls whose cost is unknown.", "calls", "sum(c.cost_nusd IS NULL)"),
        *money(
            "cost_usd",
            "iif(count(c.cost_nusd) < count(*), NULL, sum(c.cost_nusd))",
            "All calls; null if any is unpriced.",
        ),
        Column("known_cost_usd", "usd", "The calls whose cost is known.", "USD", reads=("sum(c.cost_nusd)",)),
    ),
    "calls AS c JOIN threads AS t ON t.n = c.thread_n GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4",
)

FRAMES: dict[str, Declared] = {
    d.name: d for d in (_THREADS, _EPISODES, _CALLS, _ATTEMPTS, _COSTS, _CONTEXT, _EVENTS, _SLOTS, *MEMORY_FRAMES)
}
"""The frames by name, in the order a reader meets them."""
