"""Thread types: what each may use and how it is told to work. A type is chosen at dispatch and never changes."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from slate_lab.config import LabConfig, LimitsSpec
from slate_lab.records import Limits
from slate_lab.slates import Target
from slate_lab.weave.tools import READ_ONLY
from slate_lab.weave.tools.facts_tool import EPISODE_FACTS
from slate_lab.weave.tools.memory import tools_for

__all__ = ["EVIDENCE", "ThreadType", "thread_types"]

EVIDENCE = """\
Evidence charter: cite what you read (file and line). Enumerate the cases in scope and mark each. Give a concrete
counterexample for anything serious. Say how far "no problem found" reaches. Look for evidence of the opposite of what
you believe. Write down the hypotheses you dropped. Derive the verdict from the evidence. Say what would settle an open
finding. Review a fix as a new change. Admit what you did not check."""


class ThreadType(Struct, frozen=True, kw_only=True):
    """One type of thread.

    Attributes:
        tools: names of the tools it is given.
        charter: what it is told beside the preamble.
        model: logical model it prefers over the lab's default.
        limits: limits of its actions, where the action sets none.
        fixed: a project listed its tools: it gets none that units add.
        slots: the slots around its turn: `all`, `base` or ids; None is none.
        approve: tools whose every call a person must approve.
        reads, writes: the memory its slate tools may read and write.
    """

    name: str
    tools: tuple[str, ...] = ()
    charter: str = ""
    model: str | None = None
    limits: Limits = Limits()
    fixed: bool = False
    slots: str | tuple[str, ...] | None = None
    approve: tuple[str, ...] = ()
    reads: tuple[Target, ...] = ()
    writes: tuple[Target, ...] = ()


_LOOKERS = (*READ_ONLY, EPISODE_FACTS)
_WRITERS = (*_LOOKERS, "write", "edit", "bash", "python")

BUILT_IN: tuple[ThreadType, ...] = (
    ThreadType(name="general", tools=_WRITERS),
    ThreadType(
        name="researcher",
        tools=_LOOKERS,
        charter="You research: find out what is the case and report it. You change nothing.",
    ),
    ThreadType(name="reviewer", tools=_LOOKERS, charter=f"You review work that others did.\n{EVIDENCE}"),
    ThreadType(
        name="adversarial",
        tools=_LOOKERS,
        charter=f"You try to prove that the work is wrong.\n{EVIDENCE}",
    ),
    ThreadType(
        name="implementer",
        tools=_WRITERS,
        charter="You make one bounded change, then read it back to verify it.",
    ),
    ThreadType(name="query", charter="You answer one focused question from what you are given. You have no tools."),
)


def thread_types(config: LabConfig) -> Mapping[str, ThreadType]:
    """The built-in types and the project's own; a project type of a built-in name changes what it sets.

    `reviewer` and `adversarial` keep the evidence charter whatever a project says.
    """
    types = {t.name: t for t in BUILT_IN}
    for name, spec in config.thread_types.items():
        base = types.get(name, ThreadType(name=name, tools=_LOOKERS))
        charter = base.charter if spec.charter is None else spec.charter
        if name in ("reviewer", "adversarial") and EVIDENCE not in charter:
            charter = f"{charter}\n{EVIDENCE}"
        reads, writes = (tuple(map(Target.of, targets)) for targets in (spec.reads, spec.writes))
        own = base.tools if spec.tools is None else tuple(spec.tools)
        types[name] = ThreadType(
            name=name,
            tools=tuple(dict.fromkeys((*own, *tools_for(reads, writes)))),
            charter=charter,
            model=spec.model or base.model,
            limits=limits_of(spec.limits).over(base.limits),
            fixed=spec.tools is not None,
            slots=tuple(spec.slots) if isinstance(spec.slots, list) else spec.slots or base.slots,
            approve=tuple(spec.approve),
            reads=reads,
            writes=writes,
        )
    return {name: replace(t, approve=(*config.tools.approve, *t.approve)) for name, t in types.items()}


def limits_of(spec: LimitsSpec) -> Limits:
    """The limits of the configuration as a record."""
    return Limits(turns=spec.turns, tokens=spec.tokens, tool_calls=spec.tool_calls, seconds=spec.seconds, usd=spec.usd)
