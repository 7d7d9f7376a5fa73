"""The task of a thread is what was typed, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest

NASTY = {
    "braces and dollars": 'cost is $5 {x} "quoted" ?',
    "typescript": "const f = (x: string) => `${x}: ${JSON.stringify({a: [1]})}`; // $HOME {{x}}",
    "trailing question": "what is this?",
    "trailing double question": "first line\nreally??",
    "one name and a question": "x?",
    "trailing bang": "do it!",
    "leading bang": "!ls -la\n!!pwd",
    "magic lines": "%timeit 1\n%%bash\n%slate thread x\nx = %slate status",
    "help line": "?open\nopen?",
    "doctest": ">>> 1 + 1\n2\n>>> foo(x)\n... more",
    "pasted prompts": "In [1]: x = 1\n   ...: y = 2\nOut[1]: 3",
    "blank line of spaces": "first\n   \t \nthird",
    "indentation": "    four\n  two\n\ttab",
    "quotes": 'it\'s "quoted" and \'\'\'tripled\'\'\' and """too"""',
    "backslashes": "C:\\new\\table \\n \\\\server\\share\nends in a backslash \\",
    "comment": "# Title\n## Part",
    "carriage returns": "one\r\ntwo\r\nthree",
    "semicolon": "say nothing;",
    "trailing blanks": "ends in blanks   ",
    "empty lines around": "\n\ntext\n\n",
    "unicode": "“smart” – ‘quotes’ … 日本語 🎉 \u2028 line separator \x0c form feed",
    "ansi": "\x1b[31mred\x1b[0m",
    "nul": "a\x00b",
    "percent formats": "%s %(x)d 100% {0!r:>{w}}",
    "unbalanced": '((( [ { "',
    "semicolon magic": ",f a b\n;g c\n/h d",
}


@pytest.mark.parametrize("body", NASTY.values(), ids=NASTY.keys())
def test_a_cell_body_is_the_task_byte_for_byte(notebook: Any, body: str) -> None:
    """Whatever stands in the body reaches the action unchanged, also with variables of those names around."""
    notebook.run("x = 'WRONG'; w = 9")
    notebook.open()
    notebook.run(f"%%slate thread --quiet\n{body}\n")
    assert notebook.lab.actions[-1].task == body


def test_a_body_survives_under_another_cell_magic(notebook: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`%%time` on top changes nothing in the task."""
    notebook.open()
    notebook.run('%%time\n%%slate thread --quiet\ncost is $5 {x} "quoted" ?')
    assert notebook.lab.actions[-1].task == 'cost is $5 {x} "quoted" ?'
    assert "Wall time" in capsys.readouterr().out


LINES = {
    "trailing question inside": ('%slate thread --quiet "what is it?"', "what is it?"),
    "question after the quote": ("%slate thread --quiet 'is it {x} $x ?'", "is it {x} $x ?"),
    "assignment": ('e = %slate thread --quiet "why?"', "why?"),
    "windows path": (r'%slate thread --quiet "read C:\new\table.txt"', r"read C:\new\table.txt"),
    "bang": ("%slate thread --quiet 'now!'", "now!"),
    "one word and a question": ("%slate thread --quiet why?", "why?"),
    "assigned word and a question": ("e = %slate thread --quiet why?", "why?"),
    "in a block": ("if True:\n    e = %slate thread --quiet 'in {a} block?'", "in {a} block?"),
    "after python": ("y = 1\n%slate thread --quiet '$y'", "$y"),
    "double blanks": ("%slate thread --quiet 'two  blanks'", "two  blanks"),
    "semicolon": ("%slate thread --quiet 'a; b';", None),
}


@pytest.mark.parametrize(("line", "task"), LINES.values(), ids=LINES.keys())
def test_a_line_is_taken_as_it_was_typed(notebook: Any, line: str, task: str | None) -> None:
    """The line form expands nothing and is no request for help, whatever it ends in."""
    notebook.run("x = 'WRONG'; y = 'WRONG'")
    notebook.open()
    notebook.run(line)
    assert notebook.lab.actions[-1].task == (task if task is not None else "a; b;")


def test_a_question_mark_behind_the_magic_asks_for_help(notebook: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`%slate?` shows the magic's own text, and starts nothing."""
    notebook.run("%slate?")
    assert "run one bounded action" in capsys.readouterr().out
    assert notebook.labs == []


def test_a_terminal_still_asks_for_more_lines(notebook: Any) -> None:
    """In a terminal a `%%slate` cell is complete after an empty line, not after its first line."""
    check = notebook.ip.input_transformer_manager.check_complete
    assert check("%%slate thread\n")[0] == check("%%time\n")[0]
    assert check("%%slate thread\nwhat is it?")[0] == "incomplete"
    assert check("%%slate thread\nwhat is it?\n\n")[0] == "complete"


def test_other_cells_are_what_they_were(notebook: Any) -> None:
    """Python, other magics and help requests are transformed as without the extension."""
    from IPython.core.inputtransformer2 import TransformerManager

    ours, plain = notebook.ip.input_transformer_manager, TransformerManager()
    for cell in (
        "x = 1\ny?",
        "%%time\n>>> 1",
        "%slated x?",
        "%%slated\nx",
        "s = '''\n%slate x?\n'''",
        "%timeit 1",
        "!ls",
    ):
        assert ours.transform_cell(cell) == plain.transform_cell(cell)
