"""Large and hostile input: files are streamed, results stay short, and what was not looked at is said."""

from __future__ import annotations

import hashlib

import pytest

from slate_lab.weave.tools import BUILT_IN, Kit, ToolFailed
from slate_lab.weave.tools.change import MAX_BYTES
from slate_lab.weave.tools.kit import NOTES
from slate_lab.weave.tools.sweep import LINE_S
from slate_lab.weave.tools.workspace import Workspace

LINES = 45_000
LINE = "some line " * 10


def run(kit, tool, /, **arguments):
    """The result of one built-in tool."""
    return BUILT_IN[tool].run(kit, arguments)


@pytest.fixture
def kit(tmp_path):
    """An empty workspace."""
    return Kit(Workspace(tmp_path))


@pytest.fixture
def big(kit):
    """A text file larger than what is ever held at once, with a needle in its last line."""
    path = kit.workspace.root / "big.log"
    path.write_bytes(f"{LINE}\n".encode() * (LINES - 1) + b"needle")
    assert path.stat().st_size > MAX_BYTES
    return path


def test_grep_finds_what_stands_at_the_end_of_a_large_file(kit, big):
    """Text beyond the first megabytes is searched like any other."""
    assert run(kit, "grep", pattern="needle") == f"big.log:{LINES}: needle"


def test_grep_says_when_it_did_not_look_at_everything(kit, big):
    """A search that is cut by its allowance of bytes or time never looks like a whole one."""
    small = Kit(kit.workspace, max_search_bytes=1_000_000)
    assert run(small, "grep", pattern="needle") == (
        "no line matches 'needle'\n(stopped after 1 MB, not everything was looked at: narrow the path)"
    )
    quick = Kit(kit.workspace, max_search_s=-1)
    assert "stopped after -1 s" in run(quick, "grep", pattern="needle")
    assert "stopped after -1 s" in run(quick, "find", name="*.log")


def test_grep_shows_the_match_in_a_very_long_line(kit):
    """A line longer than a piece is searched to its end, and the part with the match is shown."""
    (kit.workspace.root / "min.js").write_bytes(b"x" * 2_500_000 + b" needle " + b"y" * 50_000)
    match, closing = run(kit, "grep", pattern="needle").split("\n")
    assert match.startswith("min.js:1: … xxx")
    assert " needle yyy" in match
    assert len(match) < 500
    assert closing == "(lines longer than 1000000 bytes were searched in pieces)"


def test_a_pattern_that_explodes_costs_one_file_and_not_the_search(kit):
    """The line it hangs in is bounded in time, the other files are still searched, and it is said."""
    (kit.workspace.root / "a.txt").write_text("a" * 60 + "!\n")
    (kit.workspace.root / "b.txt").write_text("aab\n")
    patient = Kit(kit.workspace, max_search_s=600)
    text = run(patient, "grep", pattern=r"^(\w|\w\w|a)+(?<=b)$")
    assert text == f"b.txt:1: aab\n(1 file skipped: the pattern took over {LINE_S:g} s in a line, make it simpler)"


def test_a_pattern_that_calls_itself_is_refused(kit):
    """Recursion without end is a fault of the pattern, told as such where the time of a line does not end it first."""
    (kit.workspace.root / "a.txt").write_text("a")
    patient = Kit(kit.workspace, max_search_s=600, max_line_s=600)
    with pytest.raises(ToolFailed, match="calls itself without end"):
        run(patient, "grep", pattern="(?R)")


def test_read_goes_through_a_large_file_page_by_page(kit, big):
    """Any line can be reached; the note says how many there are."""
    assert run(kit, "read", path="big.log", limit=1) == f"{LINE}\n(lines 1-1 of {LINES}; read on with offset=2)"
    assert run(kit, "read", path="big.log", offset=LINES) == "needle"
    assert run(kit, "read", path="big.log", offset=LINES - 1, limit=1).endswith(f"read on with offset={LINES})")
    with pytest.raises(ToolFailed, match=f"1 to {LINES}"):
        run(kit, "read", path="big.log", offset=LINES + 1)
    small = Kit(kit.workspace, max_search_bytes=1_000)
    assert run(small, "read", path="big.log", limit=1).endswith("(lines 1-1 of more than 1; read on with offset=2)")
    quick = Kit(kit.workspace, max_search_s=-1)
    with pytest.raises(ToolFailed, match="smaller offset, or use grep"):
        run(quick, "read", path="big.log", offset=9)


ENDS = {
    "no break at the end": (b"one\ntwo\nlast", 3),
    "a break at the end": (b"one\ntwo\nlast\n", 3),
    "an empty last line": (b"one\n\n\n", 3),
    "windows": (b"one\r\ntwo\r\n", 2),
    "mark": (b"\xef\xbb\xbfone\n", 1),
    "one long line": (b"x" * 3_000_000, 1),
    "long line, then one": (b"x" * 1_000_000 + b"\ny\n", 2),
}


@pytest.mark.parametrize(("data", "count"), ENDS.values(), ids=ENDS)
def test_lines_are_counted_as_editors_do(kit, data, count):
    """However the file ends, and wherever a page ends, the number of lines is the same."""
    (kit.workspace.root / "a.txt").write_bytes(data)
    with pytest.raises(ToolFailed, match=f"has {count} lines"):
        run(kit, "read", path="a.txt", offset=count + 1)
    first = run(kit, "read", path="a.txt", limit=1)
    assert (f"(lines 1-1 of {count};" in first) == (count > 1)
    assert first.startswith(("one", "x"))


def test_a_gigantic_line_is_cut_and_it_is_said(kit):
    """The next line can still be read on from."""
    (kit.workspace.root / "a.txt").write_bytes(b"x" * 3_000_000 + b"\nnext\n")
    text = run(kit, "read", path="a.txt")
    assert text.startswith("x" * kit.max_chars + "\n(a line is cut")
    assert text.endswith("(lines 1-1 of 2; read on with offset=2)")
    assert run(kit, "read", path="a.txt", offset=2) == "next"


def test_the_hash_before_is_of_the_whole_large_file(kit, big):
    """An artifact tells the truth about what was replaced, whatever its size."""
    before = hashlib.sha256(big.read_bytes()).hexdigest()
    run(kit, "write", path="big.log", text="small")
    (artifact,) = kit.artifacts
    assert artifact["before"] == before
    assert artifact["after"] == hashlib.sha256(b"small").hexdigest()


def test_edit_refuses_a_large_file_and_leaves_it(kit, big):
    """Too large to edit is said with the bound, before anything is changed."""
    size = big.stat().st_size
    with pytest.raises(ToolFailed, match=f"larger than {MAX_BYTES} bytes and cannot be edited"):
        run(kit, "edit", path="big.log", old="needle", new="x")
    assert big.stat().st_size == size
    assert kit.artifacts == ()


def test_a_name_as_long_as_the_disk_allows_can_be_written(kit):
    """The file beside it, which is renamed, has a short name of its own, and none is left behind."""
    run(kit, "write", path="ä" * 127, text="x")
    assert [p.name for p in kit.workspace.root.iterdir()] == ["ä" * 127]


LONE = "\ud800"
SURROGATES = {
    "read path": ("read", {"path": f"a{LONE}"}),
    "read path, byte": ("read", {"path": "a\udce9"}),
    "grep path": ("grep", {"pattern": "x", "path": LONE}),
    "grep broken pattern": ("grep", {"pattern": f"({LONE}"}),
    "find path": ("find", {"path": LONE}),
    "ls path": ("ls", {"path": LONE}),
    "write path": ("write", {"path": LONE, "text": "x"}),
    "edit path": ("edit", {"path": LONE, "old": "a", "new": "b"}),
    "edit old": ("edit", {"path": "a.txt", "old": LONE, "new": "b"}),
    "argument name": ("read", {LONE: "x"}),
}


@pytest.mark.parametrize(("tool", "arguments"), SURROGATES.values(), ids=SURROGATES)
def test_lone_surrogates_are_refused_in_words_that_can_be_sent(kit, tool, arguments):
    """No encoding error comes out of a tool, and what does come out can be encoded."""
    (kit.workspace.root / "a.txt").write_text("text")
    with pytest.raises(ToolFailed) as failed:
        run(kit, tool, **arguments)
    failed.value.message.encode()


def test_lone_surrogates_in_content_and_patterns_are_harmless(kit):
    """They are replaced in what is written and simply match nothing."""
    run(kit, "write", path="a.txt", text=f"a{LONE}b")
    run(kit, "edit", path="a.txt", old="b", new=f"c{LONE}")
    assert (kit.workspace.root / "a.txt").read_text(encoding="utf-8") == "a\ufffdc\ufffd"
    for text in (run(kit, "grep", pattern=LONE), run(kit, "find", name=LONE)):
        assert text.startswith("no ")
        text.encode()


LONG = {
    "path": ("read", {"path": "a/" * 500_000}),
    "path of one part": ("read", {"path": "a" * 3_000}),
    "path to write": ("write", {"path": "a/" * 1_900 + "b" * 300, "text": "x"}),
    "pattern": ("grep", {"pattern": "(" * 100_000}),
    "nested pattern": ("grep", {"pattern": "(" * 900}),
    "huge repeat": ("grep", {"pattern": "a{99999999999999999999}("}),
    "name": ("find", {"name": "*a" * 100_000}),
    "unknown argument": ("read", {"x" * 100_000: 1}),
}


@pytest.mark.parametrize(("tool", "arguments"), LONG.values(), ids=LONG)
def test_errors_stay_short_whatever_was_given(kit, tool, arguments):
    """A refusal never fills the window of a model."""
    kit.max_chars = 1_000
    with pytest.raises(ToolFailed) as failed:
        run(kit, tool, **arguments)
    assert len(failed.value.message) <= kit.max_chars + NOTES


def test_results_stay_short_whatever_is_found(kit):
    """Long names, long lines and many of both are cut with a note."""
    kit.max_chars = 300
    for n in range(30):
        (kit.workspace.root / f"{n:02}{'n' * 200}").write_text("needle " * 200)
    for tool, arguments in {
        "grep": {"pattern": "needle"},
        "find": {},
        "ls": {},
        "read": {"path": f"00{'n' * 200}"},
        "write": {"path": f"{'w' * 200}", "text": "x"},
    }.items():
        text = run(kit, tool, **arguments)
        assert len(text) <= kit.max_chars + NOTES
        assert tool == "write" or "cut" in text
