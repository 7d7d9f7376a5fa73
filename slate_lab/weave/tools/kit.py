"""From a Python function to a tool: schema by signature, arguments checked strictly, blocking calls run off the loop.

A tool is a function, plain or `async`, whose first parameter is the `Kit` it works with; the rest are its arguments.
The first paragraph of its docstring is what the model reads, `Args:` lines describe the arguments.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, Protocol, get_type_hints

import msgspec
from msgspec import Struct

from slate_lab.records import ToolSpec
from slate_lab.tokens import clean
from slate_lab.weave.tools.sweep import LINE_S, Sweep
from slate_lab.weave.tools.workspace import ToolFailed, Version, Workspace

__all__ = ["CLOSE_S", "Approve", "Artifact", "Kit", "Tool", "ToolFailed", "make_tool"]

NOTES = 500
"""Room for the notes below a result, in characters."""
STOP_S = 1.0
"""How long `Kit.stop` waits for a change that is under way."""
CLOSE_S = 5.0
"""How long one closer of a kit may take."""

_call_ended: ContextVar[threading.Event | None] = ContextVar("call_ended", default=None)
"""Set when the one call that runs in this context was cancelled."""

Text = str | Awaitable[str]
Nested = Callable[[str, dict[str, Any]], Awaitable[tuple[str, bool]]]


class Approve(Protocol):
    """Asks a person whether a call may be made."""

    async def __call__(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Return if it may; raise `ToolFailed` with the reason if not."""
        ...


class Artifact(Struct, frozen=True):
    """A file an action changed: SHA-256 before (None if it was not there) and after."""

    path: str
    before: str | None
    after: str | None


class Kit:
    """What the tools of one worker share: its workspace, the size of a result, what was changed, and the way to stop.

    Attributes:
        workspace: where paths resolve.
        thread, kind: the thread's id and the name of its type.
        context: ids of its context episodes.
        tools: what this worker was granted, by name.
        writable: whether its commands may change the workspace: its type has tools that write.
        approve, approved: asked before every call of one of the tools `approved`; None lets all be made.
        note: keeps an event of this thread.
        max_chars: the most characters one result should have; short notes come on top.
        stopped: set when no tool may start or change anything any more.
        call: how code of a worker calls a tool: its result and whether it went well. The worker puts its own here,
            which counts the call and keeps its result as a fact.

    Args:
        max_search_bytes, max_search_s: how much one search looks at, and how long.
        max_line_s: how long a pattern may search in one line.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        thread: str = "",
        kind: str = "",
        context: tuple[str, ...] = (),
        tools: Mapping[str, Tool] | None = None,
        writable: bool = True,
        approve: Approve | None = None,
        approved: Collection[str] = (),
        note: Callable[[str, dict[str, Any]], object] = lambda kind, data: None,
        max_chars: int = 8_000,
        max_search_bytes: int = 64_000_000,
        max_search_s: float = 10.0,
        max_line_s: float = LINE_S,
    ) -> None:
        self.workspace = workspace
        self.thread, self.kind, self.context = thread, kind, context
        self.tools: Mapping[str, Tool] = tools or {}
        self.writable, self.approve, self.approved = writable, approve, approved
        self.call: Nested = self._plain_call
        self._note, self._noted = note, set[str]()
        self.max_chars = max_chars
        self.stopped = threading.Event()
        self._max_search_bytes, self._max_search_s = max_search_bytes, max_search_s
        self._max_line_s = max_line_s
        self._changed: dict[str, Artifact] = {}
        self._change = threading.Lock()
        self.seen: dict[str, Version | None] = {}
        self._closers: list[Callable[[], Awaitable[None] | None]] = []
        self._closed = False
        self._closing = threading.Lock()

    def stop(self) -> None:
        """Let no tool start or change anything any more; running ones end soon. Called from any thread.

        A change on disk that is under way is waited for (at most a second), so that `artifacts` is whole afterwards.
        """
        self.stopped.set()
        if self._change.acquire(timeout=STOP_S):
            self._change.release()

    def check(self) -> None:
        """Raise `ToolFailed` if the kit was stopped or this call was cancelled; tools call it at every step."""
        ended = _call_ended.get()
        if self.stopped.is_set() or (ended is not None and ended.is_set()):
            raise ToolFailed("stopped")

    def note_once(self, kind: str, data: dict[str, Any]) -> None:
        """Keep an event of this thread, the first time."""
        if kind not in self._noted:
            self._noted.add(kind)
            self._note(kind, data)

    async def _plain_call(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        try:
            return await self.tools[name].call(self, arguments), True
        except ToolFailed as e:
            return f"error: {e.message}", False

    def on_close(self, closer: Callable[[], Awaitable[None] | None]) -> Callable[[], None]:
        """Have `closer` called once, on the loop, when the conversation is over; the last one given goes first.

        Returns:
            What takes it back, for something that ended earlier.

        Raises:
            ToolFailed: the kit is closed already: whoever calls closes what it holds itself.
        """
        with self._closing:
            if self._closed:
                raise ToolFailed("stopped")
            self._closers.append(closer)

        def withdraw() -> None:
            with self._closing:
                if closer in self._closers:
                    self._closers.remove(closer)

        return withdraw

    async def aclose(self) -> tuple[str, ...]:
        """Stop, then call every closer; returns what went wrong, for a closer that fails holds up no other.

        A second call does nothing.
        """
        with self._closing:
            closers, self._closers, self._closed = self._closers[::-1], [], True
        self.stop()
        faults = []
        for closer in closers:
            try:
                under_way = closer()
                if under_way is not None:
                    await asyncio.wait_for(under_way, CLOSE_S)
            except TimeoutError:
                faults.append(f"{_name(closer)} took more than {CLOSE_S:g} s and was left")
            except Exception as e:  # noqa: BLE001  a closer may be foreign code: the others are still called
                faults.append(f"{_name(closer)}: {type(e).__name__}: {e}")
        return tuple(faults)

    @contextmanager
    def changing(self, path: str = "") -> Iterator[None]:
        """One change of `path` from its first look to its note, and none once stopped.

        A worker makes one at a time, and so do all workers of a lab that change the same file.
        """
        with self._change, self.workspace.held(path):
            self.check()
            yield

    def changed(self, path: str, *, before: str | None, after: str | None) -> None:
        """Note the hashes of a change of `path`; several changes of one file become one artifact."""
        first = self._changed.get(path)
        self._changed[path] = Artifact(path, first.before if first else before, after)

    def saw(self, path: str) -> None:
        """Note how `path` stands now: a later `write` of this worker replaces no other version unread."""
        name = str(self.workspace.inside(path))
        self.seen[name] = self.workspace.version(path)

    def sweep(self) -> Sweep:
        """The allowance of one look through files."""
        return Sweep(self.check, max_bytes=self._max_search_bytes, seconds=self._max_search_s, line_s=self._max_line_s)

    def result(self, lines: list[str], *notes: str) -> str:
        """`lines` cut to `max_chars` at a line's end, then the notes that are not empty."""
        return "\n".join(filter(None, (self._cut("\n".join(lines)), *notes)))

    def bounded(self, text: str) -> str:
        """Any text of a tool as it may go to a model: encodable, and not much longer than `max_chars`."""
        text = clean(text)
        return text if len(text) <= self.max_chars + NOTES else self._cut(text)

    def _cut(self, text: str) -> str:
        if len(text) <= self.max_chars:
            return text
        kept = text[: self.max_chars].rpartition("\n")[0] or text[: self.max_chars]
        return kept + "\n(cut here: ask for less)"

    @property
    def artifacts(self) -> tuple[dict[str, Any], ...]:
        """The changed files in the order of their first change."""
        return tuple(msgspec.to_builtins(a) for a in self._changed.values() if a.before != a.after)


class Tool(Struct, frozen=True):
    """A tool that can be offered to a model and run.

    Attributes:
        spec: what the model sees.
        run: `(kit, arguments) -> text`, blocking or a coroutine function.
        doing: `(arguments) -> text`, what a live view says while it runs; None is its name and first argument.
        lacking: why it cannot be used on this machine, and what to do; "" if it can. It is then granted to nobody.
    """

    spec: ToolSpec
    run: Callable[[Kit, dict[str, Any]], Text]
    doing: Callable[[Mapping[str, Any]], str] | None = None
    lacking: str = ""

    async def call(self, kit: Kit, arguments: dict[str, Any]) -> str:
        """Run the tool, a blocking one in a worker thread of the loop; a cancel ends this call, and with it the thread.

        Raises:
            ToolFailed: the kit was stopped, the arguments do not fit, a person denied it, or the tool says why not.
        """
        kit.check()
        if kit.approve is not None and self.spec.name in kit.approved:
            await kit.approve(self.spec.name, arguments)
        if inspect.iscoroutinefunction(self.run):
            return str(await self.run(kit, arguments))
        ended = threading.Event()
        before = _call_ended.set(ended)
        try:
            return str(await asyncio.to_thread(self.run, kit, arguments))
        except asyncio.CancelledError:
            ended.set()
            raise
        finally:
            _call_ended.reset(before)


def make_tool(function: Callable[..., Any], *, doing: Callable[[Mapping[str, Any]], str] | None = None) -> Tool:
    """The tool that `function(kit, **arguments)`, plain or `async`, is; its name is the function's own."""
    summary, notes = _docs(function)
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    annotated: Any = Annotated
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        kind = annotated[hints[name], msgspec.Meta(description=notes.get(name, ""))]
        default = parameter.default
        fields.append((name, kind) if default is parameter.empty else (name, kind, default))
    shape = msgspec.defstruct(f"{function.__name__}_arguments", fields, forbid_unknown_fields=True)

    def run(kit: Kit, arguments: dict[str, Any]) -> str:
        with _words(kit, function.__name__):
            return kit.bounded(function(kit, **_arguments(function.__name__, fields, shape, arguments)))

    async def run_async(kit: Kit, arguments: dict[str, Any]) -> str:
        with _words(kit, function.__name__):
            return kit.bounded(await function(kit, **_arguments(function.__name__, fields, shape, arguments)))

    spec = ToolSpec(name=function.__name__, description=summary, parameters=_schema(shape))
    return Tool(spec, run_async if inspect.iscoroutinefunction(function) else run, doing)


@contextmanager
def _words(kit: Kit, tool: str) -> Iterator[None]:
    """What goes wrong in `tool`, in words for the model."""
    kit.check()
    try:
        yield
    except ToolFailed as e:
        raise ToolFailed(kit.bounded(e.message)) from e
    except OSError as e:
        raise ToolFailed(kit.bounded(f"{tool} failed: {e.strerror or e}")) from e


def _name(closer: Callable[..., Any]) -> str:
    return str(getattr(closer, "__qualname__", type(closer).__name__))


def _arguments(tool: str, fields: list[Any], shape: type[Any], given: dict[str, Any]) -> dict[str, Any]:
    try:
        return msgspec.structs.asdict(msgspec.convert(given, shape))
    except (msgspec.ValidationError, UnicodeError) as e:
        raise ToolFailed(f"wrong arguments for {tool}: {str(e)[:300]}; it takes {_usage(fields)}") from e


def _usage(fields: list[Any]) -> str:
    return ", ".join(f[0] if len(f) == 2 else f"{f[0]}={f[2]!r}" for f in fields)


def _schema(shape: type[Any]) -> dict[str, Any]:
    (_,), parts = msgspec.json.schema_components([shape])
    body: dict[str, Any] = dict(next(iter(parts.values())))
    body.pop("title", None)
    body["additionalProperties"] = False
    return body


def _docs(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    text = inspect.getdoc(function) or ""
    summary, _, rest = text.partition("\n\nArgs:\n")
    notes: dict[str, str] = {}
    for line in rest.splitlines():
        name, colon, note = line.strip().partition(": ")
        if colon:
            notes[name] = note
    return " ".join(summary.split()), notes
