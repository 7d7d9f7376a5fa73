"""Whether two claims can mean the same path."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_lab.weave.claims import claim_problems, held, meet

MEET = [
    ("src/a.py", "src/a.py"),
    ("src/**", "src/a.py"),
    ("src/**", "src"),
    ("src", "src/deep/a.py"),
    ("src/", "src/a.py"),
    ("**", "anything/at/all"),
    ("**/a.py", "src/deep/a.py"),
    ("*.py", "a.*"),
    ("a?c/x", "abc/*"),
    ("src/[ab].py", "src/a.py"),
    ("SRC/A.py", "src/a.PY"),
    ("./src//a.py", "src/a.py"),
    ("src\\a.py", "src/a.py"),
    (".", "src/a.py"),
    ("caf\u00e9.md", "cafe\u0301.md"),
    ("a/**/z", "a/b/c/z"),
    ("a*b*c", "axxbyyc"),
]
APART = [
    ("src/a.py", "src/b.py"),
    ("src/**", "docs/a.md"),
    ("*.py", "src/a.py"),
    ("*.py", "*.md"),
    ("src/*", "src/deep/a.py"),
    ("**/a.py", "src/b.py"),
    ("a/**/z", "b/z"),
    ("src", "srcs/a.py"),
]


@pytest.mark.parametrize(("one", "two"), MEET, ids=lambda s: s)
def test_claims_that_can_name_the_same_path_meet(one: str, two: str):
    """In both directions."""
    assert meet(one, two)
    assert meet(two, one)


@pytest.mark.parametrize(("one", "two"), APART, ids=lambda s: s)
def test_claims_that_cannot_name_the_same_path_keep_apart(one: str, two: str):
    """In both directions."""
    assert not meet(one, two)
    assert not meet(two, one)


NAME = st.text(alphabet="ab", min_size=1, max_size=3)
GLOB = st.text(alphabet="ab*?", min_size=1, max_size=4)


@given(GLOB, GLOB, NAME)
def test_two_globs_that_match_one_name_always_meet(one: str, two: str, name: str):
    """No pair that could write the same file is let through."""
    if fnmatch.fnmatchcase(name, one) and fnmatch.fnmatchcase(name, two):
        assert meet(one, two)
        assert meet(f"x/{one}", f"**/{two}")


@given(st.lists(st.sampled_from(["**", "*", "a", "b"]), min_size=1, max_size=12))
def test_many_stars_are_decided_quickly(parts: list[str]):
    """A claim made to be slow is decided all the same."""
    assert meet("/".join(parts), "**")


@pytest.mark.parametrize("claim", ["", " ", "/etc/passwd", "../x", "a/../../x", "~/x", "C:/x", "a\nb", "x" * 301])
def test_a_claim_is_a_path_inside_the_workspace(claim: str):
    """Anything else is told with what is wrong."""
    assert [p.code for p in claim_problems([claim])] == ["bad_claim"]


def test_who_holds_a_claim_is_named():
    """Once per claim, with both globs."""
    (problem,) = held(["src/**"], {"t3 (running, here)": ("docs/x", "src/a.py"), "t4": ("src/b.py",)})
    assert (problem.code, "t3 (running, here)" in problem.message) == ("claim_held", True)
