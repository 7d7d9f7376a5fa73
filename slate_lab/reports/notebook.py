"""Run a notebook in a kernel of its own and keep what it showed: an executed copy, and a page that needs no network.

In: a notebook; progress goes to `line`, a text at a time. Out: the HTML page, with the executed notebook beside it.
Called by the demo and by the verbs. The kernel is this very interpreter, whatever kernels are installed, and is
reached over a socket file where the system has them, over loopback elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from slate_lab.errors import LabError
from slate_lab.reports.page import export_html, read_notebook

__all__ = ["Line", "run_notebook", "sections"]

Line = Callable[[str], None]
_NAME = "slate-lab"
_BEAT_S = 20.0


def run_notebook(
    path: Path, *, out: Path, line: Line, env: Mapping[str, str] | None = None, timeout_s: float = 1800
) -> Path:
    """Execute a copy of the notebook at `path`, in its own folder, and write both forms of it into `out`.

    Args:
        path: the notebook; it is not changed.
        out: the folder of `<name>.ipynb` (executed) and `<name>.html`.
        line: is given one line of progress at a time, `[2/7] three threads ... 41 s`.
        env: variables added to this process's environment for the kernel.
        timeout_s: seconds for the whole notebook.

    Returns:
        The HTML page.

    Raises:
        LabError: a cell failed (`notebook_failed`), it took too long (`notebook_timeout`), or its kernel died
            (`kernel_died`). The executed part is saved first, and named in the message.
    """
    nb = read_notebook(path)
    out.mkdir(parents=True, exist_ok=True)
    executed = out / f"{path.stem}.ipynb"
    with tempfile.TemporaryDirectory(prefix="slate-lab-kernel-") as private, _Steps(sections(nb), line) as steps:
        client = _client(nb, Path(private), folder=path.parent, steps=steps, deadline=time.monotonic() + timeout_s)
        try:
            _execute(client, {**os.environ, **_quiet(private), **(env or {})}, steps)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            raise _failure(error, steps.title, executed, timeout_s) from error
        finally:
            nbformat.write(nb, executed)  # type: ignore[no-untyped-call]
    return export_html(executed, out / f"{path.stem}.html")


def sections(nb: NotebookNode) -> list[str]:
    """For each cell, the heading it stands under; cells before the first one are under `start`."""
    titles, current = [], "start"
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            heads = [text for text in cell.source.splitlines() if text.startswith("#")]
            current = heads[-1].lstrip("#").strip() if heads else current
        titles.append(current)
    return titles


class _Steps:
    """Tells which section runs, and how long each took; sections without code are not counted."""

    def __init__(self, titles: list[str], line: Line) -> None:
        self._titles, self._line = titles, line
        self._order: list[str] = []
        self.title = ""
        self._since = time.monotonic()
        self._stop = threading.Event()
        self._lock = threading.Lock()

    def count(self, nb: NotebookNode) -> None:
        """Learn which sections hold code."""
        code = [t for cell, t in zip(nb.cells, self._titles, strict=True) if cell.cell_type == "code"]
        self._order = list(dict.fromkeys(code))

    def __enter__(self) -> _Steps:
        threading.Thread(target=self._beat, name="slate-lab-progress", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        with self._lock:
            self._tell("failed after " if kind else "")
            self.title = ""

    def stop(self) -> None:
        """No further cell starts."""
        self._stop.set()

    def at(self, cell: NotebookNode, cell_index: int, **_: Any) -> None:
        """A code cell starts.

        Raises:
            LabError: it was told to stop.
        """
        if self._stop.is_set():
            raise LabError("interrupted", code="interrupted")
        title = self._titles[cell_index]
        with self._lock:
            if title != self.title:
                self._tell()
                self.title, self._since = title, time.monotonic()

    def _tell(self, before: str = "", after: str = "") -> None:
        if self.title:
            place = f"[{self._order.index(self.title) + 1}/{len(self._order)}]"
            self._line(f"{place} {self.title} ... {before}{time.monotonic() - self._since:.0f} s{after}")

    def _beat(self) -> None:
        told = 0.0
        while not self._stop.wait(1.0):
            with self._lock:
                now = time.monotonic()
                if now - max(told, self._since) >= _BEAT_S and not self._stop.is_set():
                    told = now
                    self._tell(after=" so far")


def _client(nb: NotebookNode, private: Path, *, folder: Path, steps: _Steps, deadline: float) -> NotebookClient:
    steps.count(nb)
    return NotebookClient(
        nb,
        km=_kernel(private),
        resources={"metadata": {"path": str(folder)}},
        timeout_func=lambda cell: max(1, int(deadline - time.monotonic())),
        store_widget_state=False,
        on_cell_execute=steps.at,
    )


def _execute(client: NotebookClient, env: Mapping[str, str], steps: _Steps) -> None:
    """Run all cells; Ctrl-C interrupts the running one as a notebook's stop button does, and no other starts.

    The client works in a thread of its own: in the main thread it would take Ctrl-C for itself.
    """
    with ThreadPoolExecutor(2, thread_name_prefix="slate-lab-notebook") as pool:
        running = pool.submit(asyncio.run, client.async_execute(env=env, cleanup_kc=True))
        try:
            running.result()
        except KeyboardInterrupt:
            steps.stop()
            kernel = client.km
            if isinstance(kernel, AsyncKernelManager) and kernel.has_kernel:
                pool.submit(asyncio.run, _interrupt(kernel)).result()
            wait([running])
            raise


async def _interrupt(kernel: AsyncKernelManager) -> None:
    await kernel.interrupt_kernel()


def _kernel(private: Path) -> AsyncKernelManager:
    """A kernel manager whose only kernel is this interpreter."""
    spec = private / "kernels" / _NAME
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "slate_lab", "language": "python"}), encoding="utf-8"
    )
    specs = KernelSpecManager(kernel_dirs=[str(spec.parent)], ensure_native_kernel=False)
    manager = AsyncKernelManager(kernel_name=_NAME, kernel_spec_manager=specs)
    manager.connection_file = str(private / "kernel.json")
    if os.name == "posix":
        manager.transport, manager.ip = "ipc", str(private / "k")
    return manager


def _quiet(private: str) -> dict[str, str]:
    """A profile without the user's start-up files, and no chatter of the debugger."""
    return {"IPYTHONDIR": str(Path(private) / "ipython"), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


def _failure(error: Exception, title: str, executed: Path, timeout_s: float) -> LabError:
    seen = f"what ran until then is in {executed}"
    if isinstance(error, CellTimeoutError):
        return LabError(f"the notebook took more than {timeout_s:.0f} s, in {title!r}: {seen}", code="notebook_timeout")
    if isinstance(error, CellExecutionError):
        return LabError(
            f"a cell in {title!r} failed with {error.ename}: {error.evalue}; {seen}", code="notebook_failed"
        )
    return LabError(f"the notebook's kernel died in {title!r}: {seen}", code="kernel_died")
