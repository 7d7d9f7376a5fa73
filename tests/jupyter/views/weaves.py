"""Made-up threads and episodes for the tests of the views."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from slate_lab.records import Action, Episode, Evidence, Finding, Thread, ThreadState, Usage

BASE_NS = 1_790_000_000_000_000_000
NOW_NS = BASE_NS + 3_600_000_000_000

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "quotes": "\"double\" 'single' & <b>",
    "ansi": "\x1b[31mred\x1b[0m \x1b]0;title\x07plain",
    "rtl": "\u202eגבאי \u2067אבג\u2069 abc",
    "controls": "a\x00b\x08c\r\nd\x7f\u2028e\ufffe\ud800f",
    "long": "x" * 10_000,
    "wide": "日本語" * 500 + "👩‍🔬" * 500,
    "cdata": "]]><!-- --><![CDATA[ &amp; &#0;",
    "empty": " ",
}


def thread(
    n: int,
    *,
    state: ThreadState = "successful",
    queued_s: float = 0.0,
    waited_s: float = 0.5,
    ran_s: float = 5.0,
    context: Sequence[str] = (),
    name: str | None = None,
    task: str = "Read the notes.",
    model: str = "local",
) -> Thread:
    """One thread `t<n>`; times in seconds after `BASE_NS`."""
    created = BASE_NS + int(queued_s * 1e9)
    started = None if state == "queued" else created + int(waited_s * 1e9)
    ended = None if started is None or state == "running" else started + int(ran_s * 1e9)
    return Thread(
        id=f"t{n}",
        action=Action(task=task, name=name, context=tuple(context)),
        state=state,
        code="limit_turns" if state == "failed" else None,
        logical=model,
        created_ns=created,
        started_ns=started,
        ended_ns=ended,
    )


def episode(of: Thread, *, text: str = "The deploy of 14:02 did it.") -> Episode:
    """The episode of a thread, each section holding `text`."""
    return Episode(
        id=f"{of.id}.e1",
        thread=of.id,
        name=of.action.name,
        task=of.action.task,
        status="ok" if of.state == "successful" else "failed",
        code=of.code,
        intent=text,
        actions=(text,),
        findings=(Finding(text=text, evidence=(Evidence(fact=2, line=12, quote=text),)),),
        artifacts=({"path": "report.md", "before": None, "after": "aa"},),
        issues=(text,),
        handoff=text,
        context=tuple((c, "0" * 64) for c in of.action.context),
        logical=of.logical,
        requested_route="local/small",
        ran_route="local/small",
        fact_count=3,
        lost=("api-gateway",),
        lost_count=2,
        invented=("15:00",),
        facts_tokens=1200,
        episode_tokens=300,
        usage={"worker": Usage(input_fresh=900, output=100), "compressor": Usage(input_fresh=1200, output=300)},
        cost_nusd=1_230_000,
        created_ns=of.created_ns,
        started_ns=of.started_ns or of.created_ns,
        ended_ns=of.ended_ns or of.created_ns,
        hash="ab" * 32,
    )


@st.composite
def weaves(draw: st.DrawFn, *, most: int = 12) -> tuple[list[Thread], list[Episode]]:
    """Threads in any state, at any time, citing any earlier episode or an unknown one; and the episodes that exist."""
    threads: list[Thread] = []
    at = 0.0
    for n in range(1, draw(st.integers(0, most)) + 1):
        at += draw(st.sampled_from([0.0, 0.0, 0.2, 5.0, 4000.0]))
        states: list[ThreadState] = ["queued", "running", "successful", "failed", "cancelled"]
        cited = draw(st.lists(st.integers(1, max(1, n)), max_size=3))
        threads.append(
            thread(
                n,
                state=draw(st.sampled_from(states)),
                queued_s=at,
                waited_s=draw(st.sampled_from([0.0, 0.1, 30.0])),
                ran_s=draw(st.sampled_from([0.0, 0.01, 3.0, 600.0])),
                context=[f"t{c}.e1" for c in cited],
                name=draw(st.none() | st.text(max_size=60) | st.sampled_from(list(HOSTILE.values()))),
                model=draw(st.sampled_from(["local", "sol-high", "a-very-long-logical-model-name-indeed-it-is"])),
            )
        )
    return threads, [episode(t) for t in threads if t.state in ("successful", "failed")]
