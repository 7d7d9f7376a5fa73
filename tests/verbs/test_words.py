"""Lines split as a shell would, backslashes kept, typography reported."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_lab.verbs.words import WrongUsage, check_typography, split

LINES = {
    "plain": ("a  b\tc", ["a", "b", "c"]),
    "double quotes": ('a "b  c" d', ["a", "b  c", "d"]),
    "single quotes": ("'a \"b\" c'", ['a "b" c']),
    "quotes inside a word": ('a"b c"d', ["ab cd"]),
    "empty text": ('"" x', ["", "x"]),
    "escaped quote": (r'"say \"hi\" now"', ['say "hi" now']),
    "windows path": (r"C:\new\table", [r"C:\new\table"]),
    "quoted windows path": (r'"C:\new folder\table"', [r"C:\new folder\table"]),
    "quoted path that ends in a backslash": (r'"C:\temp\"', ["C:\\temp\\"]),
    "unc path": (r'"\\server\share"', [r"\\server\share"]),
    "two backslashes before the end": (r'"a\\" b', ["a\\\\", "b"]),
    "typography inside quotes": ('"it’s “fine” – ok"', ["it’s “fine” – ok"]),
    "apostrophe inside a word": ("don’t", ["don’t"]),
    "nothing expanded": ('"$HOME {x} `ls` *"', ["$HOME {x} `ls` *"]),
    "hash is no comment": ("a #b", ["a", "#b"]),
    "other blanks": ("a\u00a0b", ["a", "b"]),
}


@pytest.mark.parametrize(("line", "words"), LINES.values(), ids=LINES.keys())
def test_a_line_becomes_words(line: str, words: list[str]) -> None:
    """Quotes go, everything else stays."""
    assert split(line) == words


REFUSED = {
    "typographic double": ("thread “do it”", "type a straight one"),
    "german quotes": ("thread „mach“", "type a straight one"),
    "guillemets": ("thread «fais»", "type a straight one"),
    "typographic single": ("thread ‘do’", "type a straight one"),
    "en dash": ("thread –model x", "type two hyphens, --model"),
    "em dash": ("thread —model x", "type two hyphens, --model"),
    "mixed dashes": ("thread -–model x", "type two hyphens, --model"),
    "open double": ('thread "do', "is not closed"),
    "open single": ("thread don't", "is not closed"),
}


@pytest.mark.parametrize(("line", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_meant_is_reported(line: str, said: str) -> None:
    """Pasted quotes and dashes, and open quotes, are refused with what to type."""
    with pytest.raises(WrongUsage, match=said):
        split(line)


def test_words_from_a_shell_are_checked_too() -> None:
    """In the program the shell has split already; a quoted text may begin with anything."""
    check_typography(["thread", "“quoted” by the shell", "--model", "x", "–"])
    with pytest.raises(WrongUsage):
        check_typography(["thread", "“hello", "world”"])
    with pytest.raises(WrongUsage):
        check_typography(["—json"])


@given(st.lists(st.text(st.characters(exclude_characters="\\", exclude_categories=("Cs",)))))
def test_what_a_shell_quotes_comes_back(words: list[str]) -> None:
    """Any texts without backslashes, quoted by `shlex.join`, are read back unchanged."""
    assert split(shlex.join(words)) == words
