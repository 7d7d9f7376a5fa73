"""The magic: what its commands return, what they say, and how it comes and goes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from IPython.core.error import UsageError

from slate_lab import jupyter
from slate_lab.errors import (
    ConfigError,
    DispatchError,
    LimitExceeded,
    ModelError,
    Place,
    Problem,
    SlateError,
    StoreError,
)
from slate_lab.jupyter.show import Rows
from slate_lab.records import Episode, Thread
from slate_lab.routing.rows import ModelRow

ERRORS = {
    "unknown command": ("%slate thrad x", "did you mean `thread`"),
    "unknown option": ("%slate thread --modle x y", "did you mean `--model`"),
    "abbreviated option": ("%slate thread --mod x y", "has no option `--mod`"),
    "option without value": ("%slate thread --type", "--type: expected one argument"),
    "twice": ("%slate thread --name a --name b x", "--name stands twice"),
    "typographic quotes": ("%slate thread “do it”", "type a straight one"),
    "typographic dash": ("%slate thread –model x", "type two hyphens, --model"),
    "open quote": ("%slate thread 'do it", "is not closed"),
    "no task": ("%slate thread --quiet", "needs a task"),
    "two words": ("%slate thread read it", 'put it in quotes: %slate thread "read it"'),
    "task twice": ("%%slate thread 'a'\nb", "stands twice"),
    "blank limit": ("%slate thread --limit usd x", "is no limit"),
    "unknown limit": ("%slate thread --limit usb=1 x", "did you mean `usd=`"),
    "wrong limit": ("%slate thread --limit turns=1.5 x", "whole number above 0"),
    "no such variable": ("%slate thread --var dg x", "no variable `dg`"),
    "no such place to fill": ("%slate thread --fill df x", "the task has no {df}"),
    "no id": ("%slate thread --context nope x", "`nope` is no id"),
    "unknown thread": ("%slate facts t99", "there is no thread t99"),
    "unknown episode": ("%slate episode t99.e1", "there is no episode t99.e1"),
    "unknown frame": ("%slate frames thread", "invalid choice: 'thread'"),
    "wrong state": ("%slate threads --state done", "none of queued"),
    "body where none goes": ("%%slate status\nx", "takes no cell body"),
    "empty body": ("%%slate thread\n", "the cell body is empty"),
    "no lab in the variable": ("%slate open $df", "holds no lab"),
    "wrong seconds": ("%slate wait --timeout soon", "give seconds"),
    "unknown help": ("%slate help thrad", "did you mean `thread`"),
}


@pytest.mark.parametrize(("cell", "said"), ERRORS.values(), ids=ERRORS.keys())
def test_what_a_person_can_mend_is_one_line(
    notebook: Any, capsys: pytest.CaptureFixture[str], cell: str, said: str
) -> None:
    """Wrong usage prints one line on standard error that says what to do; no traceback."""
    notebook.open()
    notebook.ip.user_ns["df"] = 1
    capsys.readouterr()
    with pytest.raises(UsageError):
        notebook.run(cell)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("UsageError: ")
    assert said in err


LAB_ERRORS = {
    "refused": DispatchError([Problem("a", "first"), Problem("b", "second")]),
    "config": ConfigError([Problem("x", "is no number", Place("slate.yaml", 3, "maxConcurrent"))]),
    "limit": LimitExceeded("usd", used=1, limit=0.5),
    "model": ModelError("auth", "the key was refused:\nset OPENAI_API_KEY"),
    "slate": SlateError("full", code="full"),
    "store": StoreError("locked\r\nby another", code="locked"),
}


@pytest.mark.parametrize("error", LAB_ERRORS.values(), ids=LAB_ERRORS.keys())
def test_errors_of_the_lab_are_one_line_with_all_they_say(
    notebook: Any, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    """Every LabError prints its whole message on one line, and stays reachable as the cause."""
    notebook.lab.refuse = error
    capsys.readouterr()
    with pytest.raises(UsageError) as caught:
        notebook.run("%slate thread x")
    assert caught.value.__cause__ is error
    assert capsys.readouterr().err == f"UsageError: {' '.join(str(error).split())}\n"


def test_an_error_of_ours_keeps_its_traceback(notebook: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """What nobody can mend in the notebook is not hidden."""
    notebook.lab.refuse = KeyError("a bug")
    with pytest.raises(KeyError):
        notebook.run("%slate thread x")
    assert "Traceback" in capsys.readouterr().out


def test_the_first_verb_opens_the_lab_of_the_current_folder_and_says_so(
    notebook: Any, capsys: pytest.CaptureFixture[str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `open`, the current folder's lab is opened, once, with one line."""
    monkeypatch.chdir(tmp_path)
    notebook.run("%slate status")
    assert f"opened the lab at {tmp_path}" in capsys.readouterr().out
    notebook.run("%slate status")
    assert "opened" not in capsys.readouterr().out
    assert [lab.root for lab in notebook.labs] == [tmp_path]


def test_help_needs_no_lab(notebook: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`%slate` alone lists the commands, `--help` the options; nothing is opened."""
    for line, said in (
        ("", "threads"),
        ("help", "threads"),
        ("thread --help", "--context"),
        ("help thread", "--limit"),
    ):
        notebook.run(f"%slate {line}")
        assert said in capsys.readouterr().out
    assert notebook.labs == []


def test_the_line_form_returns_the_episode(notebook: Any) -> None:
    """`x = %slate thread "..."` gives the record, and so does the cell form."""
    notebook.open()
    episode = notebook.run('e = %slate thread --quiet "task"\ne')
    assert isinstance(episode, Episode)
    assert notebook.run("%%slate thread --quiet\nbody").task == "body"
    assert [t.id for t in notebook.run("%slate threads")] == ["t1", "t2"]


def test_options_reach_the_action(notebook: Any) -> None:
    """Every option of `thread` ends in its field of the action."""
    notebook.open()
    notebook.run("e = %slate thread first\nlist_of = [e, 't1']\nvalue = {'a': 1}\nname = '{value}'")
    notebook.run(
        "%%slate thread --type researcher --model local --reason cheap --context t1.e1,$e --context list_of "
        '--slate "Title/my folder" --var value,$name --tools read,grep --limit usd=0.05,turns=3 --limit toolCalls=9 '
        "--after t1 --name 'a label' --fill name --fit --quiet\nuse {name} and {value} {name}"
    )
    action = notebook.lab.actions[-1]
    assert action.task == "use {value} and {value} {value}"
    assert (action.type, action.model, action.reason, action.name) == ("researcher", "local", "cheap", "a label")
    assert action.context == ("t1.e1", "t1.e1", "t1.e1", "t1.e1")
    assert (action.slates, action.tools, action.after) == (("Title/my folder",), ("read", "grep"), ("t1",))
    assert action.variables == {"value": "{'a': 1}", "name": "{value}"}
    assert (str(action.limits.usd), action.limits.turns, action.limits.tool_calls) == ("0.05", 3, 9)
    assert action.fit is True


def test_a_variable_stands_where_an_id_is(notebook: Any) -> None:
    """An Episode, a Thread, a handle or a text with an id is taken for its id, with or without `$`."""
    notebook.open()
    notebook.run(
        "ep = %slate thread a\nh = %slate thread --background b\nths = %slate threads\nth = ths[0]\nid = 't2.e1'"
    )
    for word, found in (("ep", "t1.e1"), ("$ep", "t1.e1"), ("h", "t2.e1"), ("$th", "t1.e1"), ("id", "t2.e1")):
        assert notebook.run(f"%slate episode {word}").id == found
    assert [f.n for f in notebook.run("%slate facts $ep[1:3]")] == [2, 3]
    assert [f.n for f in notebook.run("%slate facts t1[-2:]")] == [4, 5]


def test_background_returns_a_handle_at_once(notebook: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The handle is the lab's own; cancel and wait know it."""
    notebook.lab.hold = True
    handle = notebook.run("h = %slate thread --background work\nh")
    assert (handle.id, handle.done()) == ("t1", False)
    assert notebook.run("%slate wait --timeout 0.05") is None
    assert "1 still running" in capsys.readouterr().out
    notebook.run("%slate cancel $h")
    assert handle.cancelled == 1
    notebook.run("%slate wait")
    notebook.run("%slate cancel all")
    out = capsys.readouterr().out
    assert "everything has settled" in out
    assert "nothing to cancel" in out


def test_a_lab_with_running_threads_is_not_swapped_away(notebook: Any, tmp_path: Any) -> None:
    """`open` of another project is refused while threads run in this one, and closes it otherwise."""
    first = notebook.lab
    first.hold = True
    notebook.run("h = %slate thread --background work")
    with pytest.raises(UsageError, match="1 still running"):
        notebook.run(f"%slate open {tmp_path}")
    notebook.run("%slate cancel all")
    notebook.run(f"%slate open {tmp_path}")
    assert (first.closed, len(notebook.labs)) == (True, 2)


def test_a_lab_made_in_python_is_taken_and_not_closed(notebook: Any, tmp_path: Any) -> None:
    """`%slate open $lab` works on the lab a variable holds; unloading leaves it open."""
    mine = type(notebook.lab)(tmp_path)
    notebook.ip.user_ns["lab"] = mine
    assert notebook.run("%slate open $lab") is mine
    notebook.run("%slate thread --quiet x")
    assert len(mine.handles) == 1
    jupyter.unload(notebook.ip)
    assert mine.closed is False


def test_loading_is_idempotent_and_unloading_leaves_nothing(notebook: Any, tmp_path: Any) -> None:
    """After unload the shell is what it was: magics, completer, transformers, formatters; the lab is closed."""
    ip = notebook.ip
    lab = notebook.lab
    jupyter.load(ip, notebook._open)
    manager = ip.input_transformer_manager
    assert len(ip.Completer.custom_matchers) == 1
    assert [getattr(t, "__name__", "") for t in manager.cleanup_transforms].count("verbatim_cell") == 1
    jupyter.unload(ip)
    jupyter.unload(ip)
    assert lab.closed
    assert ip.find_line_magic("slate") is None
    assert ip.find_cell_magic("slate") is None
    assert ip.Completer.custom_matchers == []
    assert "verbatim_cell" not in [getattr(t, "__name__", "") for t in manager.cleanup_transforms]
    assert "VerbatimLine" not in [t.__name__ for t in manager.token_transformers]
    html = ip.display_formatter.formatters["text/html"]
    assert not {Episode, Thread, list} & set(html.type_printers)
    jupyter.load(ip, notebook._open)
    assert ip.find_line_magic("slate") is not None


def test_records_show_themselves(notebook: Any) -> None:
    """An episode has a card, a list of threads is a table; a list of anything else shows itself as ever."""
    notebook.open()
    notebook.run("e = %slate thread '<script>alert(1)</script>'")
    form = notebook.ip.display_formatter.format
    data, _ = form(notebook.ip.user_ns["e"])
    assert "## Intent" in data["text/plain"]
    assert "<script>" not in data["text/html"]
    data, _ = form(notebook.run("%slate threads"))
    assert data["text/plain"].startswith("id")
    assert '<table class="dataframe">' in data["text/html"]
    assert "<script>" not in data["text/html"]
    data, _ = form(notebook.lab.threads())
    assert '<table class="dataframe">' in data["text/html"]
    assert data["text/plain"].startswith("[<Thread t1 ")
    data, _ = form([1, 2])
    assert data == {"text/plain": "[1, 2]"}


def test_the_pool_is_a_table_with_its_legend() -> None:
    """Texts stand to the left, ratings to the right, and the command of the legend is set as code."""
    row = ModelRow(
        name="local", default=True, rating=5, cost_rating=1, effort="off", provider="here", model="m", window=None,
        key_variable=None, key_present=True, price="free here",
    )  # fmt: skip
    table = Rows([row])._repr_html_() or ""
    assert '<td style="text-align:left">local *</td><td style="text-align:right">5</td>' in table
    assert "<code>slate-lab models --json</code>" in table


def test_loading_is_light() -> None:
    """The extension's own modules bring in no pandas, no widgets, no HTTP client and no configuration parser."""
    code = (
        "import sys; from IPython.core.interactiveshell import InteractiveShell as S\n"
        "ip = S(); before = set(sys.modules)\n"
        "from slate_lab import jupyter; jupyter.load(ip, None); new = set(sys.modules) - before;"
        "print([m for m in ('pandas','ipywidgets','anywidget','httpx','pydantic','yaml','tiktoken') if m in new])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_trust_opens_the_lab_again(notebook: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`%slate trust` records, and the magic's own lab is opened anew so that it holds; `--show` changes nothing."""
    (notebook.root / "slate.yaml").write_text("threadTypes: {triage: {charter: Read logs.}}\n")
    notebook.open()
    assert notebook.run("%slate trust --show")["trusted"] is False
    assert len(notebook.labs) == 1
    told = notebook.run("%slate trust")
    assert (told["trusted"], told["covers"]) == (True, ["slate.yaml: threadTypes"])
    assert [lab.closed for lab in notebook.labs] == [True, False]
    notebook.lab.hold = True
    notebook.run("%slate thread --background x")
    assert notebook.run("%slate trust --forget")["trusted"] is False
    assert "open the lab again" in capsys.readouterr().out
    notebook.lab.handles[0].settle()
