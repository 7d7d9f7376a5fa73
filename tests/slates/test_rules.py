"""The reference of a slate declaration, sentence by sentence: each is one row, named in its words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from slate_lab.config import load_config
from slate_lab.errors import ConfigError, SlateError, SlateWriteRefused
from slate_lab.slates import Slates
from slate_lab.store import Store

from .making import open_slates, sized

Check = Callable[["Project"], None]
RULES: dict[str, Check] = {}


class Project:
    """A project folder whose slates are declared in YAML and kept on disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.stores: list[Store] = []

    def slates(self, folder: str, more: str = "") -> Slates:
        """The slates of `slate.yaml` with one folder `{folder}`; opened anew each time."""
        self.close()
        return self.declared(f"slates:\n  - title: M\n    folders:\n      - {folder}\n{more}")

    def declared(self, text: str) -> Slates:
        """The slates that `slate.yaml` declares with this text."""
        (self.root / "slate.yaml").write_text(text)
        config = load_config(self.root, home=self.root / "home").config
        self.stores.append(Store.open(self.root / "slate.db"))
        return open_slates(self.stores[-1], config.slates)

    def refused(self, text: str) -> str:
        """What is said of a file that is no configuration."""
        with pytest.raises(ConfigError) as caught:
            self.declared(text)
        return str(caught.value)

    def close(self) -> None:
        """Close what was opened."""
        while self.stores:
            self.stores.pop().close()


def rule(sentence: str) -> Callable[[Check], Check]:
    """The check of one sentence."""

    def keep(check: Check) -> Check:
        assert sentence not in RULES
        RULES[sentence] = check
        return check

    return keep


FIVE = "{name: f, tokenLimit: 5}"


@rule("a slate is a persistent memory store declared at config time")
def _(project: Project) -> None:
    project.slates(FIVE).write("M/f/a.md", "kept")
    assert project.slates(FIVE).peek("M/f/a.md").text == "kept"


@rule("it has folders, files, and metatags")
def _(project: Project) -> None:
    slates = project.slates("{name: f, tokenLimit: 5, metatags: [{name: t, type: string}], files: [{name: a.md}]}")
    assert slates.paths() == ["M/f", "M/f/a.md"]
    assert slates.write("M/f/a.md", "x", tags={"t": "v"}).ok


@rule("a slate is declared under the top-level slates: key")
def _(project: Project) -> None:
    assert "memory: unknown key" in project.refused("memory: []\n")


@rule("each slate has a title and a list of folders, both required")
def _(project: Project) -> None:
    said = project.refused("slates: [{folders: [{name: f, tokenLimit: 5}]}, {title: M}]\n")
    assert "slates[0].title: the key title is missing" in said
    assert "slates[1].folders: the key folders is missing" in said


@rule("the title must be unique within the config")
def _(project: Project) -> None:
    one = "{title: M, folders: [{name: f, tokenLimit: 5}]}"
    assert "slates[1].title: the title `M` stands twice" in project.refused(f"slates: [{one}, {one}]\n").replace(
        '"', ""
    )


@rule("the title is what slate: in targets refers to")
def _(project: Project) -> None:
    slates = project.slates(FIVE, "threadTypes: {t: {reads: [{slate: M, folder: f}]}}\n")
    assert slates.write({"slate": "M", "folder": "f", "file": "a.md"}, "x").target == "M/f/a.md"
    assert "there is no slate" in project.refused("threadTypes: {t: {reads: [{slate: M, folder: f}]}}\n")


@rule("folders: at least one")
def _(project: Project) -> None:
    assert "slates[0].folders: must hold at least one entry" in project.refused("slates: [{title: M, folders: []}]\n")


@rule("the name of a folder must be unique within the slate, not beyond it")
def _(project: Project) -> None:
    twice = "[{name: f, tokenLimit: 5}, {name: f, tokenLimit: 5}]"
    assert "stands twice" in project.refused(f"slates: [{{title: M, folders: {twice}}}]\n")
    two = "slates: [{title: M, folders: [{name: f, tokenLimit: 5}]}, {title: N, folders: [{name: f, tokenLimit: 5}]}]"
    assert project.declared(f"{two}\n").paths() == ["M/f", "N/f"]


@rule("the name and the tokenLimit of a folder are required")
def _(project: Project) -> None:
    said = project.refused("slates: [{title: M, folders: [{}]}]\n")
    assert "name is missing" in said
    assert "tokenLimit is missing" in said


@rule("tokenLimit is the maximum of tokens stored across all files in the folder")
def _(project: Project) -> None:
    slates = project.slates("{name: f, tokenLimit: 5, evictionPolicy: reject}")
    assert slates.write("M/f/a.md", sized("a", 3)).ok
    assert slates.write("M/f/b.md", sized("b", 2)).ok
    assert slates.write("M/f/c.md", "c").code == "folder_full"


@rule("access is readWrite by default")
def _(project: Project) -> None:
    slates = project.slates(FIVE)
    assert slates.rows()[0].access == "readWrite"
    assert slates.write("M/f/a.md", "x").ok


@rule("read folders can be read but not written, and what seeds them still loads")
def _(project: Project) -> None:
    slates = project.slates("{name: f, tokenLimit: 5, access: read, files: [{name: a.md, init: always cite}]}")
    assert slates.read("M/f/a.md").text == "always cite"
    result = slates.write("M/f/a.md", sized("x", 9))
    assert (result.ok, result.code) == (False, "access_denied")  # before any look at tokens
    assert slates.read("M/f/a.md").text == "always cite"


@rule("evictionPolicy is FIFO by default")
def _(project: Project) -> None:
    assert project.slates(FIVE).rows()[0].policy == "FIFO"


@rule("FIFO removes the oldest written block until under limit")
def _(project: Project) -> None:
    slates = project.slates(FIVE)
    for name in "abc":
        slates.write(f"M/f/{name}", sized(name, 2))
        slates.read("M/f/a", fallback="")
    assert [block.name for block in slates.blocks("M/f")] == ["b", "c"]


@rule("LRU removes the least recently read or written block until under limit")
def _(project: Project) -> None:
    slates = project.slates("{name: f, tokenLimit: 5, evictionPolicy: LRU}")
    for name in "abc":
        slates.write(f"M/f/{name}", sized(name, 2))
        slates.read("M/f/a", fallback="")
    assert [block.name for block in slates.blocks("M/f")] == ["a", "c"]


@rule("reject refuses the write entirely; existing content is preserved")
def _(project: Project) -> None:
    slates = project.slates("{name: f, tokenLimit: 5, evictionPolicy: reject}")
    slates.write("M/f/a", sized("a", 4))
    before = (slates.blocks("M/f"), slates.rows())
    assert not slates.write("M/f/a", sized("b", 4)).ok
    assert (slates.blocks("M/f"), slates.rows()) == before


@rule("reject fails silently for a plain write; gated writes propagate the error")
def _(project: Project) -> None:
    slates = project.slates("{name: f, tokenLimit: 5, evictionPolicy: reject}")
    slates.write("M/f/a", sized("a", 4))
    soft = slates.write("M/f/a", sized("b", 4))
    assert (soft.ok, soft.code, soft.before, soft.after, soft.limit) == (False, "folder_full", 4, 4, 5)
    with pytest.raises(SlateWriteRefused) as caught:
        slates.write("M/f/a", sized("b", 4), gated=True)
    assert caught.value.result == soft
    _, rows = project.stores[-1].query("SELECT code FROM ledger_rows WHERE kind = 'refuse'")
    assert rows == [("folder_full",)] * 2  # silent, and yet visible


@rule("if under limit the write succeeds, and nothing is evicted")
def _(project: Project) -> None:
    result = project.slates(FIVE).write("M/f/a", sized("a", 5))
    assert (result.ok, result.code, result.evicted, result.after) == (True, "written", (), 5)


@rule("folder-level metatags apply to all files")
def _(project: Project) -> None:
    slates = project.slates("{name: f, tokenLimit: 5, metatags: [{name: t, type: number}], files: [{name: a}]}")
    assert slates.write("M/f/a", "x", tags={"t": 1}).ok
    assert slates.write("M/f/new", "y", tags={"t": 2}).ok
    assert slates.read("M/f", where={"t": 2}).text == "## new\ny"


@rule("file-level metatags extend or override folder-level metatags")
def _(project: Project) -> None:
    own = "files: [{name: a, metatags: [{name: t, type: boolean}, {name: u, type: string}]}]"
    slates = project.slates(f"{{name: f, tokenLimit: 5, metatags: [{{name: t, type: number}}], {own}}}")
    assert slates.write("M/f/a", "x", tags={"t": True, "u": "v"}).ok
    assert slates.write("M/f/a", "x", tags={"t": 1}).code == "bad_tag"
    assert slates.write("M/f/b", "x", tags={"u": "v"}).code == "unknown_tag"
    with pytest.raises(SlateError, match="no metatag 'x' is declared"):
        slates.read("M/f/a", where={"x": 1})
    with pytest.raises(SlateError, match="expected a number"):
        slates.read("M/f/b", where={"t": "1"}, fallback="")


@rule("init is blank by default: an empty file")
def _(project: Project) -> None:
    slates = project.slates("{name: f, tokenLimit: 5, files: [{name: a}, {name: b, init: blank}]}")
    assert [slates.read(f"M/f/{name}").text for name in "ab"] == ["", ""]
    assert slates.rows()[0].total == 0


@rule("a literal string seeds the file with content")
def _(project: Project) -> None:
    slates = project.slates('{name: f, tokenLimit: 5, files: [{name: a, init: "Always cite sources."}]}')
    assert slates.read("M/f/a").text == "Always cite sources."
    assert slates.rows()[0].total == 3


@rule("a JSON array seeds a file for mergeByKey writes")
def _(project: Project) -> None:
    slates = project.slates(
        '{name: f, tokenLimit: 30, files: [{name: a, init: "[]"}, {name: b, init: \'[{"k": 1}]\'}]}'
    )
    assert slates.read("M/f/a").text == "[]"
    slates.write("M/f/a", '[{"k": 1, "v": "x"}]', mode="mergeByKey", key="k")
    slates.write("M/f/b", '[{"k": 1.0, "v": "x"}, {"k": true}]', mode="mergeByKey", key="k")
    assert json.loads(slates.read("M/f/a").text) == [{"k": 1, "v": "x"}]
    assert json.loads(slates.read("M/f/b").text) == [{"k": 1.0, "v": "x"}, {"k": True}]


@rule("files not declared can still be written: they are created on first write")
def _(project: Project) -> None:
    slates = project.slates(FIVE)
    with pytest.raises(SlateError, match=r"there is no file 'new\.md'") as caught:
        slates.read("M/f/new.md")
    assert caught.value.code == "not_found"
    slates.write("M/f/new.md", "x")
    assert slates.read("M/f/new.md").text == "x"


@rule("pre-declaring a file ensures that it exists for the first read, which avoids the fallback")
def _(project: Project) -> None:
    slates = project.slates("{name: f, tokenLimit: 5, files: [{name: a}]}")
    assert slates.read("M/f/a", fallback="none yet").text == ""
    assert slates.read("M/f/b", fallback="none yet").text == "none yet"


@rule("eviction operates at the content-block level: a file may be partially evicted")
def _(project: Project) -> None:
    slates = project.slates(FIVE)
    for name in "abc":
        slates.write("M/f/log.md", sized(name, 2))
    assert slates.read("M/f/log.md").text == f"{sized('b', 2)}\n{sized('c', 2)}"


@rule("files declared with init: content are not protected from eviction, and are never seeded again")
def _(project: Project) -> None:
    folder = "{name: f, tokenLimit: 5, files: [{name: a, init: one two three}]}"
    slates = project.slates(folder)
    slates.write("M/f/b", sized("b", 4))
    assert slates.read("M/f/a").text == ""  # it still exists
    assert project.slates(folder).read("M/f/a").text == ""
    assert [lost.text for lost in project.slates(folder).evicted()] == ["one two three"]


@pytest.mark.parametrize("check", RULES.values(), ids=RULES)
def test_a_slate_is_what_its_reference_says(check: Check, tmp_path: Path) -> None:
    """Each sentence of the reference holds as it is written."""
    project = Project(tmp_path)
    try:
        check(project)
    finally:
        project.close()
