"""What a notebook holds after `%slate open`, and that every frame is shown."""

from __future__ import annotations

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

import slate_lab as sl
from slate_lab import jupyter
from slate_lab.errors import ConfigError


@pytest.fixture
def shell(project, monkeypatch):
    """A shell of its own in the project's folder, the extension loaded, a scripted model behind it."""
    monkeypatch.chdir(project)
    ip = InteractiveShell()

    def open_lab(path="."):
        script = sl.ScriptedModel(lambda request: "{}" if request.schema else "done")
        return sl.Lab.open(path, store=":memory:", models=script, env={})

    jupyter.load(ip, open_lab=open_lab)
    yield ip
    jupyter.unload(ip)


def test_opening_binds_lab(shell):
    """The opened lab is in the variable `lab`, so that the next cell can use it."""
    shell.run_line_magic("slate", "open .")
    assert shell.user_ns["lab"].threads() == []


def test_every_frame_is_shown(shell):
    """`%slate frames NAME` gives the frame, empty or not."""
    shell.run_line_magic("slate", "open .")
    for _ in range(2):
        for name in ("threads", "episodes", "calls", "attempts", "costs", "context", "events"):
            assert isinstance(shell.run_line_magic("slate", f"frames {name}"), pd.DataFrame)
        shell.user_ns["lab"].thread("x", type="query")


def test_a_name_for_a_model_object_is_told(project):
    """`models="local"` is the natural guess; the message says where names go."""
    with pytest.raises(ConfigError, match="defaultModel"):
        sl.Lab.open(project, store=":memory:", models="local")
