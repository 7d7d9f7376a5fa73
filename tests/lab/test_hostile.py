"""Hostile texts change no rights and no rendering: as task, episode, file, tool result or variable."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import markdown_it
import pytest

import slate_lab as sl
from slate_lab.jupyter.cards import episode_card
from slate_lab.jupyter.cards import episode_text as card_text
from slate_lab.records import SECTIONS, Episode, Evidence, Fact, Finding, Request
from slate_lab.tokens import clean
from slate_lab.verbs.text import episode_text, facts_text
from slate_lab.weave.brief import build
from slate_lab.weave.cite import cite
from slate_lab.weave.compress import plan_compression
from slate_lab.weave.facts import FACT_CHARS
from slate_lab.weave.forms import fixed, uncompressed
from slate_lab.weave.types import BUILT_IN
from tests.weave.corpus_hostile import HOSTILE, NONCE

TEXTS = {name: text for name, text in HOSTILE.items() if name != "half a surrogate pair"}
every = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
_SEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


HEADER = ("id", "type", "name", "status", "code", "compression")


def hostile_episode(text: str) -> Episode:
    """An episode whose every field that a stranger fills holds the text."""
    line = text[:5_000]
    base = Episode(
        id="t4.e1",
        thread="t4",
        name=line,
        task=line,
        status="failed",
        code="x",
        detail=line,
        reason=line,
        actions=(line,),
        findings=(Finding(text=line, evidence=(Evidence(1, 1, line),)),),
        artifacts=({"path": line, "before": None, "after": "h"},),
        issues=(line,),
        handoff=line,
        intent=line,
        lost=(line,),
        lost_count=1,
        invented=(line,),
    )
    return base


def forms(text: str) -> list[Episode]:
    """The text in a record as it is, and in the two forms that code makes of it."""
    facts = [Fact(n=1, kind="tool", tool="read", arguments={"path": text[:500]}, text=text[:FACT_CHARS])]
    facts.append(Fact(n=2, kind="text", text=text[:FACT_CHARS]))
    base = Episode(id="t5.e1", thread="t5", task=text, name=text, status="failed", code="c", detail=text)
    return [hostile_episode(text), fixed(base, facts), uncompressed(base, facts, final=text, notice=text)]


@every
def test_an_episode_in_a_brief_stays_in_its_fence_with_its_six_sections(text):
    """One opening, one closing, six headings, header values on their lines; the system message does not change."""
    kind = BUILT_IN[0]
    for episode in forms(text):
        action = sl.Action(task="the task")
        brief = build(action, kind, [episode], [], room=None, nonce=lambda source: NONCE)
        system, user = brief.messages
        assert system == build(action, kind, [], [], room=None, nonce=lambda source: NONCE).messages[0]
        assert user.text.endswith("\n\nthe task")
        block = user.text.removesuffix("\n\nthe task").partition("<<<")[2]
        fence = block.split(" ", 1)[0]
        assert fence.startswith(NONCE)
        assert block.count(fence) == 2
        assert block.endswith(f"\n{fence}>>>")
        inner = block.splitlines()[1:-1]
        assert [line[3:] for line in inner if line.startswith("## ")] == list(SECTIONS)
        head = inner[: inner.index("## Intent")]
        keys = [line.split(":")[0] for line in head if line]
        assert keys == [key for key in HEADER if key in keys]
        assert sum(line.startswith("status: ") for line in head) == 1
        assert not _SEEN.search("\n".join(head))


@every
def test_variables_and_cited_facts_stay_in_their_fences(text):
    """The fence word stands at the two ends of the block and nowhere inside."""
    facts = [Fact(n=1, kind="tool", tool=text[:100], arguments={text[:50]: text[:50]}, text=text[:FACT_CHARS])]
    block = cite("t1", facts, room=None, nonce=NONCE)
    fence = block.splitlines()[0].removeprefix("<<<").split(" ")[0]
    assert block.count(fence) == 2
    action = sl.Action(task="the task", variables={text[:80] or "v": text})
    brief = build(action, BUILT_IN[0], [], [], room=None, nonce=lambda source: NONCE)
    inner = brief.messages[1].text.removesuffix("\n\nthe task").partition("<<<")[2]
    word = inner.split(" ", 1)[0]
    assert inner.count(word) == 2
    assert inner.endswith(f"\n{word}>>>")


@every
def test_what_a_compressor_reads_stays_in_its_fence(text):
    """The run of tildes that opens each fact is longer than any inside."""
    facts = [Fact(n=1, kind="text", text=text[:FACT_CHARS])]
    capabilities = sl.ScriptedModel().capabilities
    plan = plan_compression(
        sl.Action(task=text[:2_000]),
        facts,
        final=text[:FACT_CHARS],
        status="ok",
        code=None,
        capabilities=capabilities,
        max_output_tokens=4_096,
        max_input_tokens=None,
        count=lambda t: len(t) // 4,
    )
    user = plan.request.messages[1].text
    fence = user.split(" ", 1)[0]
    labels = [line for line in user.splitlines() if line.startswith(fence)]
    assert [label.removeprefix(fence).strip().split(":")[0].split(";")[0] for label in labels] == [
        "task",
        "end of task",
        "fact 1",
        "end of facts",
    ]
    assert user.count(fence) == 4


@every
def test_the_markdown_of_an_episode_has_six_headings_and_no_html(text):
    """As a Markdown reader sees it: six sections in order, each where it belongs, no HTML, no image."""
    for episode in forms(text):
        tokens = markdown_it.MarkdownIt("commonmark").parse(episode.to_markdown())
        headings = [i for i, token in enumerate(tokens) if token.type == "heading_open"]
        assert [tokens[i + 1].content for i in headings] == list(SECTIONS)
        assert {tokens[i].level for i in headings} == {0}
        inline = [child.type for token in tokens for child in token.children or ()]
        assert not {"html_block", "hr"} & {token.type for token in tokens}
        assert not {"html_inline", "image"} & set(inline)
        assert not _SEEN.search(episode.to_markdown())


class Tags(HTMLParser):
    """The tags and attributes of a page, in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.open = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}


PLAIN = Tags("".join(episode_card(e) for e in forms("An ordinary text, `code` and all.\n\n- a list\n- of two")))


@every
def test_the_card_of_an_episode_holds_no_tag_that_a_plain_one_does_not(text):
    """The text is text: no new tag, no new attribute, nothing that runs, nothing invisible."""
    for episode in forms(text):
        page = episode_card(episode)
        seen = Tags(page)
        assert seen.tags <= PLAIN.tags
        assert seen.names <= PLAIN.names
        assert "script" not in seen.tags
        assert not any(name.startswith("on") for name in seen.names)
        assert not _SEEN.search(page)
        assert len(page) < 400_000


@every
def test_a_terminal_shows_an_episode_and_its_facts_without_being_driven(text):
    """No escape sequence, no control character, no turn of direction; the six headings stay the only ones."""
    for episode in forms(text):
        shown = episode_text(episode)
        assert not _SEEN.search(shown)
        assert [line[3:] for line in shown.splitlines() if line.startswith("## ")] == list(SECTIONS)
        assert not _SEEN.search(card_text(episode))
    assert not _SEEN.search(facts_text([Fact(n=1, kind="tool", tool=text[:99], text=text[:FACT_CHARS])]))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_result_episode_and_variable_change_no_right(open_lab, project, text):
    """From end to end: the worker that read it is offered the same tools and the same system message as before."""
    (project / "evil.md").write_text(clean(text))
    asked: list[Request] = []

    def answer(request: Request):
        if request.schema:
            return "{}"
        asked.append(request)
        if len(asked) == 1:
            return {"tool": "read", "args": {"path": "evil.md"}}
        if len(asked) == 2:
            return {"tool": "write", "args": {"path": "owned.txt", "text": text}}
        return sl.errors.ModelError("auth", text) if len(asked) == 3 else clean(text)[:4_000] or "x"

    lab = open_lab(answer)
    first = lab.thread("Read evil.md.", type="researcher")
    assert not (project / "owned.txt").exists()
    assert first.facts[1].ok is False
    assert [f.tool for f in first.facts] == ["read", "write"]
    variables = {"v": clean(text)[:20_000]}
    second = lab.thread("And now?", type="researcher", context=[first.id], variables=variables)
    assert second.status == "ok"
    offered = [{t.name for t in r.tools} for r in asked]
    assert offered[0] == offered[1] == offered[2]
    assert all(names == offered[0] | {"episode_facts"} for names in offered[3:])  # it cites an episode now
    assert not {"write", "edit", "bash", "python"} & set().union(*offered)
    assert {r.messages[0] for r in asked if r.messages[0].role == "system"} == {asked[0].messages[0]}
    assert all(sum(m.role == "system" for m in r.messages) == 1 for r in asked)
    assert lab.store.verify() == []


@every
def test_a_hostile_task_is_passed_on_byte_for_byte_and_labels_its_thread_safely(open_lab, text):
    """The task is the person's own: the model gets it as it is, views get one clean line."""
    model = sl.ScriptedModel(["done"])
    lab = open_lab(model, compressor={"mode": "fixed"})
    task = text[:50_000]
    episode = lab.thread(task, type="query", name=text[:300])
    assert model.requests[0].messages[-1].text == task
    assert not _SEEN.search(episode_text(episode))
    assert Tags(episode_card(episode)).tags <= PLAIN.tags
