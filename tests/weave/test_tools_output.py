"""What a command printed, as bounded plain text."""

from __future__ import annotations

import pytest

from slate_lab.weave.tools.output import Capture, plain

PLAIN = {
    "colours": ("\x1b[1;31mred\x1b[0m", "red"),
    "a link and a title": ("\x1b]8;;http://x\x07link\x1b]8;;\x07\x1b]0;title\x1b\\!", "link!"),
    "moves of the cursor": ("a\x1b[2K\x1b[1Gb", "ab"),
    "one-byte control sequence": ("\x9b31mred", "red"),
    "device string": ("\x1bPq#0;2\x1b\\after", "after"),
    "clipboard": ("\x1b]52;c;ZXZpbA==\x07x", "x"),
    "cut sequence at the end": ("text\x1b[3", "text"),
    "progress bar": ("10%\r50%\r100%\ndone", "100%\ndone"),
    "windows lines": ("a\r\nb\r\n", "a\nb\n"),
    "bell, backspace, zero": ("a\x07b\x08c\x00d", "abcd"),
    "tabs and lines stay": ("a\tb\nc", "a\tb\nc"),
    "letters of all kinds stay": ("é漢🙂", "é漢🙂"),
}


@pytest.mark.parametrize(("text", "wanted"), PLAIN.values(), ids=PLAIN)
def test_escapes_and_controls_are_taken_out(text, wanted):
    """Nothing of a terminal's language reaches a model or a page."""
    assert plain(text) == wanted


def fed(chars, data, size=7):
    """A capture that was fed `data` in pieces of `size` bytes."""
    capture = Capture(chars)
    for start in range(0, len(data), size):
        capture.feed(data[start : start + size])
    return capture


def test_short_output_is_kept_whole():
    """However it was cut into pieces."""
    assert fed(100, "é漢🙂 ok\n".encode(), 1).text() == "é漢🙂 ok\n"


@pytest.mark.parametrize("letter", ["é", "漢", "🙂", "a"])
@pytest.mark.parametrize("shift", range(4))
def test_a_cut_never_splits_a_character(letter, shift):
    """Wherever head and tail end, there is no broken character, and what is left out is said."""
    text = fed(1_000, b"x" * shift + letter.encode() * 40_000, 997).text()
    assert "\ufffd" not in text
    assert "bytes left out here" in text
    assert text.startswith("x" * shift + letter)
    assert text.endswith(letter)
    assert len(text) < 1_100


def test_a_cut_never_leaves_half_an_escape_sequence():
    """Colours all the way: the tail starts with text, not with the rest of a sequence."""
    text = fed(1_000, b"\x1b[38;5;196mred\x1b[0m " * 20_000, 1_001).text()
    assert set(text.replace("about", "").split()) >= {"red"}
    assert "38;5" not in text
    assert "\x1b" not in text


def test_bytes_that_are_no_text_are_replaced():
    """Half UTF-8 from a command is shown as such, not raised."""
    assert fed(100, b"a\xff\xc3(\xe6\xbc").text() == "a\ufffd\ufffd(\ufffd"


def test_head_and_tail_are_cut_at_lines():
    """Where lines are short, whole lines are left."""
    lines = fed(400, b"".join(b"line %d\n" % n for n in range(10_000))).text().splitlines()
    assert lines[0] == "line 0"
    assert lines[-1] == "line 9999"
    assert all(line.startswith(("line ", "(...")) for line in lines)


def test_what_is_held_does_not_grow():
    """A gigabyte costs no more memory than a few kilobytes."""
    capture = Capture(1_000)
    for _ in range(3_000):
        capture.feed(b"y" * 65_536)
    assert capture.total == 3_000 * 65_536
    assert len(capture._head) + len(capture._tail) < 200_000
