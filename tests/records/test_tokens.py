"""Counting is offline, bounded on hostile input, and never raises on text that a model or a file can hold."""

from __future__ import annotations

import subprocess
import sys

import pytest

from slate_lab import tokens

COUNTED = {
    "empty": ("", 0),
    "words": ("hello world", 2),
    "special tokens are text": ("<|endoftext|>", 7),
    "an emoji": ("🍸", 2),
}


@pytest.mark.parametrize(("text", "count"), COUNTED.values(), ids=COUNTED)
def test_counts(text, count):
    """Known counts of o200k_base."""
    assert tokens.count(text) == count


HOSTILE = {
    "a million carets": "^" * 1_000_000,
    "a megabyte of spaces": " " * 1_000_000,
    "a megabyte of line feeds": "\n" * 1_000_000,
    "lone surrogates": "\ud83c" * 1_000,
    "no spaces at all": "ab" * 200_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_counted(text):
    """No panic, no hang, no special case for the caller; counts grow with the text."""
    assert 0 < tokens.count(text) <= len(text) * 3


def test_long_texts_are_counted_in_pieces_within_a_token_a_piece():
    """The sum over pieces differs from one pass by at most a token a piece."""
    text = "The quick brown fox jumps over the lazy dog. " * 2_000
    whole = len(tokens.warm().encode_ordinary(text))
    assert abs(tokens.count(text) - whole) <= len(text) // tokens.CHUNK + 1


CLEANED = {
    "plain": ("abc", "abc"),
    "lone high surrogate": ("a\ud83cb", "a\ufffdb"),
    "lone low surrogate": ("\udf78", "\ufffd"),
    "a pair is one character": ("\ud83c\udf78", "🍸"),
    "what is fine stays": ("naïve – 🍸", "naïve – 🍸"),
}


@pytest.mark.parametrize(("text", "clean"), CLEANED.values(), ids=CLEANED)
def test_lone_surrogates_are_replaced_once(text, clean):
    """One replacement character each; the result is UTF-8 and cleaning it again changes nothing."""
    assert tokens.clean(text) == clean
    assert tokens.clean(clean) == clean
    clean.encode()


def test_a_fresh_cache_needs_no_network(tmp_path):
    """With an empty cache folder and every socket refused, the ranks come from the package, verified."""
    code = (
        "import socket\n"
        "def refuse(*a, **k): raise OSError('no network')\n"
        "socket.socket.connect = refuse\n"
        "from slate_lab import tokens\n"
        "import os\n"
        "print(tokens.count('hello world'), 'TIKTOKEN_CACHE_DIR' in os.environ)"
    )
    env = {"XDG_CACHE_HOME": str(tmp_path), "PATH": "/usr/bin", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "False"]


def test_no_piece_that_is_encoded_is_long(monkeypatch):
    """The work is bounded: a megabyte of one character is encoded in pieces of `CHUNK`, each once."""
    sizes = []

    class Counting:
        """Stands where the encoding is kept; counts what it is given."""

        def encode_ordinary(self, text):
            sizes.append(len(text))
            return [0]

    monkeypatch.setattr(tokens, "_encoding", Counting())
    for text in HOSTILE.values():
        sizes.clear()
        tokens.count(text)
        assert sum(sizes) == len(text) or not sizes  # short ones may be remembered
        assert max(sizes, default=0) <= tokens.CHUNK
