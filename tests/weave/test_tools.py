"""File tools: what they return, and that no path leads out of the workspace."""

from __future__ import annotations

import os

import pytest

from slate_lab.errors import ConfigError
from slate_lab.weave.tools import BUILT_IN, READ_ONLY, Kit, ToolFailed
from slate_lab.weave.tools.workspace import Workspace


@pytest.fixture
def kit(tmp_path):
    """A workspace with a few files, a secret beside it and links that lead out and stay in."""
    root = tmp_path / "work"
    (root / "notes").mkdir(parents=True)
    (root / ".slate").mkdir()
    (root / ".slate" / "slate.db").write_text("store")
    (root / "notes" / "a.md").write_text("first line\nerror rate 4.2 %\nlast")
    (root / "b.bin").write_bytes(b"\0\1")
    (tmp_path / "secret.txt").write_text("secret")
    (root / "out.txt").symlink_to(tmp_path / "secret.txt")
    (root / "outdir").symlink_to(tmp_path)
    (root / "in.md").symlink_to(root / "notes" / "a.md")
    os.mkfifo(root / "pipe")
    return Kit(Workspace(root))


def run(kit, tool, /, **arguments):
    """The result of one built-in tool."""
    return BUILT_IN[tool].run(kit, arguments)


OUTSIDE = {
    "dotdot": "../secret.txt",
    "dotdot inside": "notes/../../secret.txt",
    "absolute": "/etc/passwd",
    "link out": "out.txt",
    "folder link out": "outdir/secret.txt",
    "nul": "notes/a.md\0",
    "newline": "a\nb",
    "device": "/dev/zero",
    "pipe": "pipe",
    "own store": ".slate/slate.db",
    "own store, other case": ".SLATE/slate.db",
    "own store, full width": "．slate/slate.db",
    "home": "~/x",
}


@pytest.mark.parametrize("path", OUTSIDE.values(), ids=OUTSIDE)
@pytest.mark.parametrize("tool", ["read", "write", "edit", "grep", "ls"])
def test_no_tool_opens_what_is_outside(kit, tool, path):
    """Every way out is refused with words for the model, and nothing outside is read or changed."""
    arguments = {
        "read": {"path": path},
        "write": {"path": path, "text": "x"},
        "edit": {"path": path, "old": "s", "new": "x"},
        "grep": {"pattern": "secret|root|store", "path": path},
        "ls": {"path": path},
    }[tool]
    if tool == "write" and path == "~/x":
        return  # a file named so below the workspace, not the home folder
    secret = kit.workspace.root.parent / "secret.txt"
    with pytest.raises(ToolFailed):
        run(kit, tool, **arguments)
    assert secret.read_text() == "secret"
    assert (kit.workspace.root / ".slate" / "slate.db").read_text() == "store"


def test_a_link_that_stays_inside_is_followed(kit):
    """Links are not forbidden, leaving is."""
    assert "4.2 %" in run(kit, "read", path="in.md")


def test_a_link_planted_between_check_and_use_is_refused(kit, monkeypatch):
    """The path is opened part by part without following links, after it was resolved."""
    resolve = kit.workspace.inside

    def inside_then_swap(path):
        relative = resolve(path)
        target = kit.workspace.root / "notes" / "a.md"
        target.unlink()
        target.symlink_to(kit.workspace.root.parent / "secret.txt")
        return relative

    monkeypatch.setattr(kit.workspace, "inside", inside_then_swap)
    with pytest.raises(ToolFailed):
        run(kit, "read", path="notes/a.md")


def test_read_returns_the_text_and_says_where_to_go_on(kit):
    """Offsets count from 1; a cut is said."""
    assert run(kit, "read", path="notes/a.md") == "first line\nerror rate 4.2 %\nlast"
    assert run(kit, "read", path="notes/a.md", offset=2, limit=1).startswith("error rate 4.2 %\n(lines 2-2 of 3")
    kit.max_chars = 12
    assert "read on with offset=2" in run(kit, "read", path="notes/a.md")
    with pytest.raises(ToolFailed, match="1 to 3"):
        run(kit, "read", path="notes/a.md", offset=9)


def test_grep_finds_lines_and_bounds_a_slow_pattern(kit):
    """Binary files are passed over; a pattern that explodes is stopped."""
    assert run(kit, "grep", pattern=r"\d\.\d") == "notes/a.md:2: error rate 4.2 %"
    assert run(kit, "grep", pattern="ERROR", ignore_case=True, path="notes").startswith("notes/a.md:2")
    with pytest.raises(ToolFailed, match="regular expression"):
        run(kit, "grep", pattern="(")


def test_find_and_ls_show_files_and_not_the_store(kit):
    """Links and the lab's own store are left out of listings."""
    assert run(kit, "find", name="*.md") == "notes/a.md"
    listing = run(kit, "ls")
    assert "notes/" in listing
    assert ".slate" not in listing
    assert "out.txt" not in listing


def test_write_and_edit_note_what_changed(kit):
    """Artifacts hold the hash before and after; two changes of one file are one artifact; no change is none."""
    run(kit, "write", path="new/deep/c.txt", text="one")
    run(kit, "edit", path="notes/a.md", old="4.2", new="5.0")
    run(kit, "edit", path="notes/a.md", old="5.0", new="4.2")
    assert [(a["path"], a["before"] is None) for a in kit.artifacts] == [("new/deep/c.txt", True)]
    run(kit, "edit", path="notes/a.md", old="last", new="end")
    assert [a["path"] for a in kit.artifacts] == ["new/deep/c.txt", "notes/a.md"]


def test_edit_wants_exactly_one_place(kit):
    """An ambiguous or missing passage changes nothing."""
    for old in ("line", "nowhere", "", "l"):
        text = (kit.workspace.root / "notes" / "a.md").read_text()
        if text.count(old) == 1 and old:
            continue
        with pytest.raises(ToolFailed, match="exactly once"):
            run(kit, "edit", path="notes/a.md", old=old, new="x")


def test_write_keeps_the_mode_of_the_file_it_replaces(kit):
    """An executable script stays executable."""
    script = kit.workspace.root / "run.sh"
    script.write_text("echo 1")
    script.chmod(0o755)
    run(kit, "edit", path="run.sh", old="1", new="2")
    assert script.stat().st_mode & 0o777 == 0o755


WRONG = {
    "missing": ("read", {}),
    "unknown": ("read", {"path": "a", "mode": "r"}),
    "wrong type": ("read", {"path": 3}),
    "number as text": ("read", {"path": "notes/a.md", "offset": "2"}),
}


@pytest.mark.parametrize(("tool", "arguments"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_told_with_what_the_tool_takes(kit, tool, arguments):
    """The model reads which arguments there are."""
    with pytest.raises(ToolFailed, match="it takes path"):
        run(kit, tool, **arguments)


def test_every_tool_has_a_schema_a_model_can_read():
    """Names, descriptions and closed objects; read-only ones are the four that look."""
    assert READ_ONLY == ("read", "grep", "find", "ls")
    for name, tool in BUILT_IN.items():
        assert tool.spec.name == name
        assert tool.spec.description
        assert tool.spec.parameters["type"] == "object"
        assert tool.spec.parameters["additionalProperties"] is False
        assert all(p["description"] for p in tool.spec.parameters["properties"].values())


def test_no_description_holds_words_a_small_model_would_copy_as_an_argument():
    """Neither an example path nor the word default: small models send them back as the argument."""
    for tool in BUILT_IN.values():
        notes = [p["description"] for p in tool.spec.parameters["properties"].values()]
        assert not [note for note in notes if "default" in note or "/" in note]


@pytest.mark.parametrize("folder", ["nosuch", ".slate", ".slate/sessions", "notes/a.md"])
def test_a_workspace_must_be_a_folder_outside_the_store(tmp_path, folder):
    """What workers may touch exists and is never the lab's own folder."""
    (tmp_path / ".slate" / "sessions").mkdir(parents=True)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("x")
    with pytest.raises(ConfigError, match="workspace"):
        Workspace.of_project(tmp_path, folder)
    assert Workspace.of_project(tmp_path, ".").root == tmp_path.resolve()
