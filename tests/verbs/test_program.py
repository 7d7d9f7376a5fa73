"""The program as a shell sees it: exit codes, streams, JSON."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import slate_lab as sl
from slate_lab.__main__ import main

pytestmark = [pytest.mark.loopback, pytest.mark.allow_hosts(["127.0.0.1", "::1", "localhost"])]


def slate_lab(*words: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the program in a folder, without a terminal."""
    env = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
    return subprocess.run(
        [sys.executable, "-m", "slate_lab", *words],
        cwd=cwd, env=env, input=stdin, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture
def filled(project: Path) -> Path:
    """A project whose store holds one settled thread."""
    with sl.Lab.open(project, models=sl.ScriptedModel(["deploy 4.2.1"]), env={}) as lab:
        lab.thread("which?", type="query", name="first")
    return project


class Server(BaseHTTPRequestHandler):
    """Answers chat completions; `slow` in the task makes it wait."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "slow" in json.dumps(body["messages"]):
            time.sleep(20)
        choice = {"index": 0, "delta": {"content": "an answer"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        chunk = {"id": "c1", "model": body["model"], "choices": [choice], "usage": usage}
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def served(project: Path) -> Iterator[Path]:
    """A project whose default model is answered by a server on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (project / "slate.yaml").write_text(f"""
defaultModel: mine
providers:
  here:
    protocol: chat
    baseUrl: "http://127.0.0.1:{server.server_port}/v1"
    models: {{m: {{window: 8000, maxOutput: 1000}}}}
models:
  add:
    - model: mine
      capabilityRating: 40
      effort: "off"
      costRating: 5
      preferredProvider: here
      providers: {{here: m}}
      guidelines: g
      cautions: c
compressor: {{mode: fixed}}
""")
    assert main(["trust", str(project)]) == 0
    yield project
    server.shutdown()
    server.server_close()


def test_a_thread_from_the_shell(served: Path) -> None:
    """The episode on standard output, nothing else anywhere, exit 0."""
    done = slate_lab("thread", "cost is $5 {x} ?", "--type", "query", "--name", "asked", cwd=served)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("t1.e1 ok")
    assert "an answer" in done.stdout
    assert not re.search(r"[\x1b\r]", done.stdout)
    with sl.Lab.open(served, env={}) as lab:
        assert [t.action.task for t in lab.threads()] == ["cost is $5 {x} ?"]


def test_a_task_from_a_pipe(served: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads the task from standard input, byte for byte; --json gives the episode as one object."""
    monkeypatch.chdir(served)
    monkeypatch.setattr("sys.stdin", io.StringIO("from\na {pipe}\n"))
    assert main(["thread", "-", "--type", "query", "--json"]) == 0
    episode = json.loads(capfd.readouterr().out)
    assert (episode["id"], episode["task"], episode["status"]) == ("t1.e1", "from\na {pipe}\n", "ok")


def test_a_turn_from_the_shell(served: Path) -> None:
    """The text on standard output; the session goes on with the next command, and `-` reads the prompt."""
    assert slate_lab("ask", "one", cwd=served).stdout == "an answer\n"
    done = slate_lab("ask", "-", "--json", cwd=served, stdin="from\na {pipe}\n")
    turn = json.loads(done.stdout)
    assert (turn["session"], turn["n"], turn["prompt"], turn["text"]) == ("c1", 2, "from\na {pipe}", "an answer")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_turn_in_the_shell_tells_what_slots_tell(served: Path) -> None:
    """Notices and progress go to standard error; a hard failure is one line, and exit 1."""
    for name, code, policy in (("input/a", "ctx.progress('half', 0.5)", "soft"), ("output/b", "1 / 0", "hard")):
        folder = served / "agent" / name
        folder.mkdir(parents=True)
        (folder / "module.py").write_text(f"def process(ctx):\n    ctx.input.add('user', 'x')\n    {code}\n"
                                          if policy == "soft" else f"def process(ctx):\n    {code}\n")  # fmt: skip
        (folder / "slot.yaml").write_text(f"failure_policy: {policy}\n")
    (served / "agent" / "pipelines.yaml").write_text("schema_version: 1\ninput: {serial: [a]}\noutput: {serial: [b]}\n")
    assert main(["trust", str(served)]) == 0
    done = slate_lab("ask", "one", cwd=served)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "a: half 50%",
        "slate-lab: the slot b (output.serial) failed and is hard: ZeroDivisionError: division by zero",
    ]


def test_ctrl_c_ends_a_turn(served: Path) -> None:
    """Exit 130, one line, and the turn stands as cancelled, also while a blocking slot hangs."""
    folder = served / "agent" / "input" / "hang"
    folder.mkdir(parents=True)
    (folder / "module.py").write_text("import time\ndef process(ctx):\n    time.sleep(600)\n")
    (folder / "slot.yaml").write_text("")
    (served / "agent" / "pipelines.yaml").write_text("schema_version: 1\ninput: {serial: [hang]}\n")
    assert main(["trust", str(served)]) == 0
    code, out, err = _interrupted(served, "ask", "one")
    assert (code, out) == (130, "")
    assert err == "slate-lab: interrupted: the turn was cancelled, the session is as before\n"
    assert _states(served / ".slate" / "slate.db") == ["cancelled"]


def test_ctrl_c_cancels_quietly(served: Path) -> None:
    """Exit 130 within a few seconds, one line, no traceback, no thread left running."""
    code, out, err = _interrupted(served, "thread", "slow", "--type", "query")
    assert code == 130
    assert (out, err.count("\n")) == ("", 1)
    assert "interrupted: t1 was cancelled" in err
    assert _states(served / ".slate" / "slate.db") == ["cancelled"]


def _interrupted(served: Path, *words: str) -> tuple[int, str, str]:
    """Exit code, output and errors of the program that Ctrl-C reaches once its thread runs."""
    store = served / ".slate" / "slate.db"
    with subprocess.Popen(
        [sys.executable, "-m", "slate_lab", *words],
        cwd=served, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            end = time.monotonic() + 30
            while time.monotonic() < end and not (store.exists() and _states(store) == ["running"]):
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    return process.returncode, out, err


def _states(store: Path) -> list[str]:
    import sqlite3

    try:
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as db:
            found = [row[0] for row in db.execute("select state from threads")]
        db.close()
        return found
    except sqlite3.Error:
        return []


SHAPES = {
    "status": dict,
    "threads": list,
    "episode": list,
    "episode t1": dict,
    "facts t1": list,
    "cost": list,
    "budget": list,
    "frames": list,
    "frames threads": list,
    "models": list,
    "config": dict,
    "check": dict,
}


def test_lists_are_one_json_value_on_standard_output(
    filled: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command that lists or shows has --json, before or after the command; nothing else is printed."""
    monkeypatch.chdir(filled)
    for line, shape in SHAPES.items():
        for words in (["--json", *line.split()], [*line.split(), "--json"]):
            assert main(words) == 0
            out, err = capfd.readouterr()
            assert isinstance(json.loads(out), shape), line
            assert err == ""


def test_text_for_people(filled: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables and episodes as text, from another folder with --project, without colour."""
    monkeypatch.chdir(filled.parent)
    assert main(["threads", "--project", "project"]) == 0
    assert capfd.readouterr().out.splitlines()[1].split()[:2] == ["t1", "successful"]
    assert main(["--project", str(filled), "episode", "t1"]) == 0
    shown = capfd.readouterr().out
    assert "## Key Findings" in shown
    assert "\x1b" not in shown


CODES = {
    "no command is help": ([], 0, "slate-lab COMMAND"),
    "help": (["thread", "--help"], 0, "--context"),
    "version": (["--version"], 0, sl.__version__),
    "unknown command": (["thrads"], 2, "did you mean `threads`"),
    "unknown option": (["threads", "--jsn"], 2, "did you mean `--json`"),
    "typographic dash": (["threads", "—json"], 2, "type two hyphens, --json"),
    "no task": (["thread"], 2, "needs a task"),
    "two words": (["thread", "read", "it"], 2, "put it in quotes"),
    "unknown episode": (["episode", "t9"], 1, "t9"),
    "no key": (["thread", "x", "--model", "gpt-sol"], 1, "OPENAI_API_KEY"),
    "no folder": (["threads", "--project", "/nowhere/at/all"], 1, "/nowhere/at/all"),
    "weights that are nowhere": (["models", "get", "/nowhere/x.gguf"], 3, "no weights"),
}


@pytest.mark.parametrize(("words", "code", "said"), CODES.values(), ids=CODES.keys())
def test_exit_codes_and_streams(
    words: list[str],
    code: int,
    said: str,
    project: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """0 done on standard output; 1 refused and 2 wrong usage with one line on standard error and nothing else."""
    monkeypatch.chdir(project)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert main(words) == code
    out, err = capfd.readouterr()
    assert said in (out if code == 0 else err)
    if code:
        assert (out, err.count("\n")) == ("", 1)
        assert err.startswith("slate-lab: ")
    else:
        assert err == ""


def test_looking_leaves_nothing_behind(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without a store stays without one."""
    monkeypatch.chdir(project)
    for words in (["threads"], ["config"], ["status"], ["check"]):
        assert main(words) == 0
    assert sorted(p.name for p in project.iterdir()) == ["notes"]


def test_the_first_write_makes_the_store(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What `slate write` says it has written is there for the next command, also in a project without a store."""
    at = ["--project", str(project)]
    (project / "slate.yaml").write_text("slates: [{title: Notes, folders: [{name: facts, tokenLimit: 100}]}]\n")
    assert main(["slate", "read", "Notes/facts", *at]) == 0
    assert not (project / ".slate").exists()
    assert main(["slate", "write", "Notes/facts/a.md", "The gateway listens on port 8080.", *at]) == 0
    capfd.readouterr()
    assert main(["slate", "read", "Notes/facts/a.md", *at]) == 0
    assert capfd.readouterr().out == "The gateway listens on port 8080.\n"


def test_check_and_init(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """init writes a project that check finds nothing wrong with; a broken one gives 1 and every problem's line."""
    monkeypatch.chdir(tmp_path)
    assert main(["init", "new"]) == 0
    assert (tmp_path / "new" / "slate.yaml").exists()
    assert main(["check", "new"]) == 0
    assert main(["init", "new"]) == 1
    (tmp_path / "new" / "slate.yaml").write_text("maxConcurent: 3\nqueue: {depth: x}\n")
    capfd.readouterr()
    assert main(["check", "new"]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert "slate.yaml:1" in err
    assert "slate.yaml:2" in err


def test_weights_are_named_with_their_place(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`models get` gives the file and where it came from; what cannot be had is one line and 1."""
    weights = tmp_path / "small.gguf"
    weights.write_bytes(b"GGUF" + bytes(64))
    assert main(["models", "get", str(weights), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["path"] == str(weights)
    assert main(["models", "get", str(tmp_path / "missing.gguf")]) == 3
    assert capfd.readouterr().err.count("\n") == 1


def test_a_reader_that_goes_away_is_no_error(filled: Path) -> None:
    """`slate-lab ... | head -1` prints no traceback."""
    code = "import sys; from slate_lab.__main__ import main\nsys.exit(main(['config', '--schema']))"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=filled, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read().decode()
    process.stderr.close()
    process.wait(30)
    assert err == ""


def test_trusting_a_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`trust --show` only looks, `trust` records and says what it covers, `--forget` takes it back; `check` follows."""
    (tmp_path / "slate.yaml").write_text("threadTypes: {triage: {charter: Read logs.}}\n")
    where = ["--project", str(tmp_path), "--json"]
    for words, trusted, held in [
        (["trust", "--show"], False, ["slate.yaml: threadTypes"]),
        (["trust"], True, []),
        (["trust", "--forget"], False, ["slate.yaml: threadTypes"]),
    ]:
        assert main([*words, *where]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["trusted"], told["covers"]) == (trusted, ["slate.yaml: threadTypes"])
        assert main(["check", *where]) == 0
        checked = json.loads(capsys.readouterr().out)
        assert (checked["trusted"], checked["held_back"]) == (trusted, held)
    assert main(["status", *where]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["held_back"] == ["slate.yaml: threadTypes"]
    assert err.count("held back") == 1
    assert main(["trust", str(tmp_path / "nowhere")]) == 1


def test_a_started_project_is_trusted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`init` trusts what it wrote, so that the next command opens it without a word."""
    assert main(["init", str(tmp_path / "new")]) == 0
    assert main(["status", "--project", str(tmp_path / "new"), "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert '"trusted": true' in out


def test_a_store_is_read_and_what_is_wrong_with_it_listed(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`store verify` ends with 0 on a sound store, and with 1 and a sentence where an episode was changed."""
    assert main(["store", "verify", "--project", str(filled)]) == 0
    assert capsys.readouterr().out == "nothing is wrong with the store\n"
    with sqlite3.connect(filled / ".slate" / "slate.db") as db:
        db.execute("UPDATE episode SET body = replace(body, '4.2.1', '9.9.9')")
    db.close()
    assert main(["store", "verify", "--json", "--project", str(filled)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert "t1.e1" in found["problems"][0]
