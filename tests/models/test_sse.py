"""Server-sent events: any bytes, any chunks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slate_lab.models.sse import SseDecoder


def read(chunks: list[bytes]) -> list[tuple[str, str]]:
    """Event names and data of a stream that came in these chunks."""
    decoder = SseDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return [(name.decode(), data.decode()) for name, data in [*events, *decoder.close()]]


@pytest.mark.parametrize(
    ("chunks", "data"),
    [
        pytest.param([b'data: {"t":"\xe2\x9c\x85"}\n\n'], ['{"t":"✅"}'], id="u0085-byte-inside-a-character"),
        pytest.param([b"data: x\xc2\x85y\n\n"], ["x\x85y"], id="u0085-itself"),
        pytest.param([b"data: a\xe2\x80\xa8b\x0bc\x0cd\x1ce\n\n"], ["a\u2028b\vc\x0cd\x1ce"], id="other-line-ends"),
        pytest.param([b"data: caf\xc3", b"\xa9\n\n"], ["café"], id="character-across-chunks"),
        pytest.param([b"data: one\r", b"\n\r\ndata: two\r\r"], ["one", "two"], id="cr-lf-across-chunks"),
        pytest.param([b"data: one\r", b"\rdata: two\r", b"\r"], ["one", "two"], id="cr-alone-across-chunks"),
        pytest.param([b"data: one\r\n", b"\r", b"\n", b"data: two\n\n"], ["one", "two"], id="crlf-in-pieces"),
        pytest.param([b"data:x\n\ndata:[DONE]\n\n"], ["x", "[DONE]"], id="no-space"),
        pytest.param([b"data:  two spaces\n\n"], [" two spaces"], id="one-space-is-dropped"),
        pytest.param([b": ping\n\n", b":\n", b"data: y\n\n"], ["y"], id="comments"),
        pytest.param([b"data: last\n"], ["last"], id="no-final-blank-line"),
        pytest.param([b"data: last"], ["last"], id="no-final-line-end"),
        pytest.param([b"data: a\ndata: b\n\n"], ["a\nb"], id="two-data-lines"),
        pytest.param([b"data\n\n"], [""], id="data-without-colon"),
        pytest.param([b"id: 1\nretry: 5\nfoo: bar\ndata: z\n\n"], ["z"], id="other-fields"),
        pytest.param([b"\xef\xbb\xbfdata: bom\n\n"], ["bom"], id="byte-order-mark"),
        pytest.param([b"\xef", b"\xbb\xbfdata: bom\n\n"], ["bom"], id="byte-order-mark-in-pieces"),
        pytest.param([b"", b"\n\n\n", b""], [], id="nothing"),
        pytest.param([b"event: ping\n\n"], [], id="event-without-data"),
    ],
)
def test_streams(chunks: list[bytes], data: list[str]) -> None:
    """The data of each event, in order."""
    assert [text for _, text in read(chunks)] == data


def test_events_have_names() -> None:
    """A name holds for one event; an `error:` field is an error event."""
    assert read([b'event: error\ndata: a\n\ndata: b\n\nerror: {"code":500}\n\n']) == [
        ("error", "a"),
        ("", "b"),
        ("error", '{"code":500}'),
    ]


def test_a_line_of_a_mebibyte() -> None:
    """A line has no length limit, and its cost does not grow with the square of its pieces."""
    long = b"x" * (1 << 20)
    stream = b"data: " + long + b"\n\n"
    assert read([stream[i : i + 100] for i in range(0, len(stream), 100)]) == [("", long.decode())]


LINES = st.sampled_from(
    [b"data: a\xc3\xa9\xe2\x80\xa8", b"data:b", b": c", b"", b"", b"event: e", b"data", b"data: [DONE]", b"error: x"]
)


@settings(deadline=None)
@given(lines=st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=12), data=st.data())
def test_chunks_do_not_matter(lines: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    """Any way of cutting a stream gives the events of the whole."""
    stream = b"".join(line + end for line, end in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(pieces) == read([stream])
