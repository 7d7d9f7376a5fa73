"""One recording for several processes, and for every protocol."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import slate_lab as sl
from models.faultserver import FaultServer, stream
from models.speech import ALL, ROUTE, Speech
from slate_lab.errors import LabError, ModelError
from slate_lab.models.cassette import Cassette
from slate_lab.models.protocol import Capabilities
from slate_lab.models.replay import ReplayTransport
from slate_lab.models.transport import open_transport
from slate_lab.records import Message, Reply, Request

WRITER = """
import sys
from pathlib import Path
from slate_lab.models.cassette import Cassette, Recording
cassette = Cassette(Path(sys.argv[1]), "auto")
for n in range(40):
    key = f"1-{sys.argv[2]}{n:03}"
    cassette.add(Recording(key=key, n=1, route="a/b", request={}, status=200, headers={}, chunks=["x" * 5000]))
    if n % 10 == 9:
        cassette.save()
print(cassette.warnings)
"""


def test_processes_that_share_a_file_lose_nothing(tmp_path: Path) -> None:
    """Three processes append to one file and put it in order again and again; every recording is there at the end."""
    path = tmp_path / "replay.jsonl"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], stdout=subprocess.PIPE, text=True)
        for name in "abc"
    ]
    assert [writer.communicate(timeout=60)[0].strip() for writer in writers] == ["()"] * 3
    assert Cassette(path, "replay").count == 120
    assert [p.name for p in tmp_path.iterdir()] == ["replay.jsonl"]


@pytest.mark.loopback
@pytest.mark.allow_hosts(["127.0.0.1", "::1", "localhost"])
@pytest.mark.parametrize("speech", ALL, ids=lambda speech: speech.name)
async def test_every_protocol_is_recorded_and_replayed(speech: Speech, tmp_path: Path) -> None:
    """The same reply from the file alone; another sampling parameter, tool or schema is another request."""
    path = tmp_path / "replay.jsonl"
    ask = Request(messages=(Message(role="user", text="hello"),), temperature=0.0)

    async def answer(cassette: Cassette, url: str, request: Request) -> Reply:
        transport = ReplayTransport(cassette, open_transport())
        model = speech.model(ROUTE, url, transport=transport, capabilities=Capabilities())
        try:
            return await model.reply(request)
        finally:
            await model.aclose()

    async with FaultServer(stream(*speech.good())) as server:
        first = await answer(Cassette(path, "auto"), server.url, ask)
    cassette = Cassette(path, "replay")
    again = await answer(cassette, "http://nowhere.invalid/v1", ask)
    assert (again.text, again.usage, again.response_id) == (first.text, first.usage, first.response_id)
    assert (first.text, again.recorded, cassette.answered) == ("hello", True, 1)
    for other in (
        Request(messages=ask.messages),
        Request(messages=ask.messages, temperature=0.5),
        Request(messages=ask.messages, temperature=0.0, max_output_tokens=5),
        Request(messages=ask.messages, temperature=0.0, schema={"type": "object"}),
    ):
        with pytest.raises(ModelError, match="not recorded"):
            await answer(cassette, "http://nowhere.invalid/v1", other)


def test_a_lab_tells_what_is_recorded(project: Path) -> None:
    """Mode, file and counts; the mode can be changed while a recording is open, and not where there is none."""
    with sl.Lab.open(project, store=":memory:", env={}, models=sl.ScriptedModel([])) as lab:
        assert lab.replay()["mode"] == "off"
        with pytest.raises(LabError, match=r"set replay\.mode"):
            lab.replay("record")
    config = {"replay": {"mode": "auto", "file": "tape.jsonl"}}
    with sl.Lab.open(project, store=":memory:", env={}, models=sl.ScriptedModel([]), config=config) as lab:
        told = lab.replay("replay")
        assert told == {
            "mode": "replay",
            "file": str(project / "tape.jsonl"),
            "recordings": 0,
            "answered": 0,
            "recorded": 0,
        }
        with pytest.raises(LabError, match="no replay mode 'off'"):
            lab.replay("off")
