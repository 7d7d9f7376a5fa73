"""From any Python function to a worker's tool: schema from its signature and docstring, its faults told to the model.

In: a function of a project, a unit or an installed package, plain or `async`. Out: a `Tool`. A blocking function runs
in a thread of its own, which does not hold up the end of the lab; one that tries to end the program ends its call.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any, get_type_hints

import msgspec

from slate_lab.errors import LabError
from slate_lab.weave.tools.kit import Kit, Tool, ToolFailed, make_tool

__all__ = ["BadFunction", "call_foreign", "function_tool"]


class BadFunction(LabError):
    """A function cannot be a tool; the message says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="bad_function")


def function_tool(function: Callable[..., Any], *, name: str | None = None) -> Tool:
    """The tool that `function` is.

    Args:
        function: its parameters are the tool's arguments; a first parameter called `kit` is given the worker's `Kit`.
        name: the tool's name, default the function's own.

    Raises:
        BadFunction: it has parameters without names, or types that have no JSON form.
    """
    name = name or getattr(function, "__name__", "")
    if not callable(function) or not name:
        raise BadFunction(f"{function!r} is no function with a name")
    try:
        parameters = list(inspect.signature(function).parameters.values())
        hints = get_type_hints(function, include_extras=True)
    except (TypeError, ValueError, NameError, AttributeError) as e:
        raise BadFunction(f"the signature of {name} cannot be read: {e}") from e
    odd = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if odd:
        raise BadFunction(f"{name} takes {', '.join(odd)} without names: give every parameter one")
    wants_kit = bool(parameters) and parameters[0].name == "kit"

    async def call(kit: Kit, **arguments: Any) -> str:
        given = {"kit": kit, **arguments} if wants_kit else arguments
        return _text(await call_foreign(function, name, **given))

    own = parameters[1:] if wants_kit else parameters
    first = inspect.Parameter("kit", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    call.__name__, call.__doc__ = name, inspect.getdoc(function) or ""
    call.__annotations__ = {p.name: hints.get(p.name, Any) for p in own}
    named = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    vars(call)["__signature__"] = inspect.Signature([first, *named])
    try:
        return make_tool(call)
    except (TypeError, ValueError) as e:
        raise BadFunction(f"the arguments of {name} have no JSON form: {e}") from e


async def call_foreign(function: Callable[..., Any], called: str, **arguments: Any) -> Any:
    """Call code that is not ours, on the loop if it is `async`, else in a thread of its own.

    Raises:
        ToolFailed: it tried to end the program or pretended to be cancelled.
        Exception: what it raised.
    """
    try:
        if inspect.iscoroutinefunction(function):
            return await function(**arguments)
        result = await _aside(lambda: function(**arguments))
        return await result if inspect.isawaitable(result) else result
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as e:
        raise ToolFailed(f"{called} tried to end the program ({type(e).__name__})") from e
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise ToolFailed(f"{called} was cancelled by its own doing") from None


def _aside(work: Callable[[], Any]) -> Awaitable[Any]:
    """The result of `work` in a daemon thread: unlike those of a pool, nobody has to wait for it at the end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((result, error))

    def run() -> None:
        result, error = None, None
        try:
            result = context.run(work)
        except BaseException as e:  # noqa: BLE001  foreign code: whatever it raises belongs to whoever asked
            error = e
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            return  # the lab has closed: nobody waits for it any more

    async def wait() -> Any:
        result, error = await done
        if error is not None:
            raise error
        return result

    threading.Thread(target=run, name="slate-lab-tool", daemon=True).start()
    return wait()


def _text(value: Any) -> str:
    """A result for a model: text as it is, anything else as JSON, what has no JSON form as Python shows it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "done"
    try:
        return msgspec.json.encode(value, enc_hook=repr).decode()
    except (TypeError, ValueError, UnicodeError, RecursionError):
        return repr(value)
