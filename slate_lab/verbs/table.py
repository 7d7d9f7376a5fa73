"""Which commands exist, for the magic and for the program: pure data that parsing, help and completion read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["COMMANDS", "FRAMES", "LIMITS", "STATES", "TOOLS", "TYPES", "Command", "Option", "Place", "commands"]

Place = Literal["magic", "program"]
Kind = Literal[
    "", "type", "model", "thread", "episode", "variable", "tool", "limit", "frame", "command", "folder", "target"
]  # fmt: skip

FRAMES = (
    "threads", "episodes", "calls", "attempts", "costs", "context", "events", "slots", "folders", "blocks", "evictions",
    "lives", "summary",
)  # fmt: skip
LIMITS = ("turns", "tokens", "toolCalls", "seconds", "usd")
TYPES = ("general", "researcher", "reviewer", "adversarial", "implementer", "query")
TOOLS = ("read", "grep", "find", "ls", "write", "edit", "bash", "python", "episode_facts")
MODES = ("append", "replace", "mergeByKey")
ACTIONS = ("read", "write", "search", "ledger")
STATES = ("queued", "running", "successful", "failed", "cancelled")


@dataclass(frozen=True)
class Option:
    """One option (`--type`) or one positional (`id`).

    Attributes:
        name: with dashes for an option.
        metavar: what stands for the value in the help; empty for a switch.
        kind: what its values are, for completion.
        many: values add up: repeated, or separated by commas.
        needed: a positional that must be given.
        rest: a positional that takes any number of words.
        at: the places that have it.
    """

    name: str
    help: str
    metavar: str = ""
    kind: Kind = ""
    choices: tuple[str, ...] = ()
    many: bool = False
    needed: bool = False
    rest: bool = False
    at: tuple[Place, ...] = ("magic", "program")

    @property
    def is_flag(self) -> bool:
        """Whether it is written with dashes."""
        return self.name.startswith("--")

    @property
    def is_switch(self) -> bool:
        """Whether it takes no value."""
        return self.is_flag and not self.metavar

    @property
    def key(self) -> str:
        """The name of its value."""
        return self.name.lstrip("-").replace("-", "_")


@dataclass(frozen=True)
class Command:
    """One subcommand.

    Attributes:
        body: the positional that the body of a cell is taken for; empty for none.
        lists: the program can print it as JSON.
        lab: it needs an opened lab.
    """

    name: str
    help: str
    options: tuple[Option, ...] = ()
    body: str = ""
    lists: bool = False
    lab: bool = True
    at: tuple[Place, ...] = ("magic", "program")


def _thread_options() -> tuple[Option, ...]:
    return (
        Option("task", "what is asked, one text in quotes, passed on verbatim", rest=True),
        Option("--type", "thread type: selects tools and charter", "NAME", kind="type"),
        Option("--model", "logical model", "NAME", kind="model"),
        Option("--reason", "why this model", "TEXT"),
        Option("--context", "episodes whose stored content joins the brief", "IDS", kind="episode", many=True),
        Option("--fit", "drop the oldest context episodes until the brief fits the window"),
        Option("--slate", "slates or folders whose content joins the brief", "TARGETS", kind="target", many=True),
        Option("--var", "notebook variables given as context", "NAMES", kind="variable", many=True, at=("magic",)),
        Option("--fill", "put it where {NAME} stands in the task", "NAMES", kind="variable", many=True, at=("magic",)),
        Option("--tools", "only these tools, or `none`", "NAMES", kind="tool", many=True),
        Option("--limit", f"what it may use: {', '.join(LIMITS)}", "KEY=N", kind="limit", many=True),
        Option("--after", "threads that must end first", "IDS", kind="thread", many=True),
        Option("--facts-of", "threads whose facts join the brief", "IDS", kind="thread", many=True),
        Option("--claim", "paths it will write, like src/**; refused while another holds them", "GLOBS", many=True),
        Option("--review", "review perspectives", "NAMES", many=True),
        Option("--track", "the track of a change, like 1.2", "N"),
        Option("--name", "a label for people", "TEXT"),
        Option("--background", "return a handle at once", at=("magic",)),
        Option("--quiet", "no live progress"),
    )  # fmt: skip


def _memory() -> tuple[Command, ...]:
    """What reads and writes slates: commands of their own in a notebook, actions of `slate` in a shell."""
    target = Option("target", "where, in quotes: `Title/folder/file.md`", kind="target", needed=True)
    reading = (
        Option("--max-tokens", "stop before the block that would exceed N tokens", "N"),
        Option("--order", "which blocks come first", "ORDER", choices=("oldest", "newest")),
        Option("--where", "only blocks with these tags", "TAG=VALUE", many=True),
        Option("--fallback", "the text if there is no such file", "TEXT"),
    )
    writing = (
        Option("--mode", "append (the default), replace, or mergeByKey", "MODE", choices=MODES),
        Option("--key", "the field that mergeByKey compares", "FIELD"),
        Option("--tag", "values of declared metatags", "TAG=VALUE", many=True),
        Option("--gated", "fail when the write is refused"),
    )
    within = Option("--in", "search only this slate or folder", "TARGET", kind="target")
    searching = (Option("--limit", "at most N", "N"),)
    actions = Option("action", f"one of {', '.join(ACTIONS)}", choices=ACTIONS, needed=True)
    words = Option("words", "its target, then a text in quotes where it takes one", rest=True)
    return (
        Command("slates", "the folders of memory: fill, limit, policy", lists=True),
        Command("panel", "the folders of memory as a picture: fill, order, what left and why", at=("magic",)),
        Command("read", "read a file or folder of memory", (target, *reading), at=("magic",)),
        Command(
            "write",
            "write to a file of memory",
            (target, Option("text", "what to write, one text in quotes", rest=True), *writing),
            body="text",
            at=("magic",),
        ),
        Command(
            "search",
            "blocks of memory that hold every word",
            (
                Option("text", "the words, in quotes", needed=True),
                within,
                *searching,
            ),
            at=("magic",),
        ),
        Command(
            "evicted",
            "what left memory, newest first: when, why, and what it said",
            (Option("target", "only this folder or file", kind="target"), *searching),
            at=("magic",),
        ),
        Command(
            "slate",
            "read, write, search memory, or its ledger of what left",
            (actions, words, *reading, *writing, within, *searching),
            lists=True,
            at=("program",),
        ),
    )  # fmt: skip


COMMANDS: tuple[Command, ...] = (
    Command(
        "open",
        "open the lab of a project folder as `lab`, or take one that a variable holds",
        (Option("path", "the project's folder (default: the current one), or $lab", kind="folder"),),
        lab=False,
        at=("magic",),
    ),
    Command("status", "the lab now: folder, models, what runs, what was spent", lists=True),
    Command("thread", "run one bounded action and show its episode", _thread_options(), body="task", lists=True),
    Command(
        "threads",
        "the threads of this project",
        (
            Option("--state", "only these states", "STATES", choices=STATES, many=True),
            Option("--limit", "only the newest N", "N"),
        ),
        lists=True,
    ),
    Command(
        "episode",
        "an episode by its id; without one, all of them",
        (Option("id", "an episode id, a thread id, or a variable that holds one", kind="episode"),),
        lists=True,
    ),
    Command(
        "facts",
        "what a thread captured, or a slice of it",
        (Option("id", "a thread or episode id, with [a:b] for a slice", kind="episode", needed=True),),
        lists=True,
    ),
    Command(
        "cancel",
        "stop a thread, or all of them",
        (Option("id", "thread ids, or `all`", kind="thread", needed=True, rest=True),),
        at=("magic",),
    ),
    Command("approvals", "calls of tools that wait for a person", lists=True),
    Command(
        "approve",
        "let a call be made that waits for a person",
        (Option("id", "an approval (a7), or a thread (t3) for all it waits for", needed=True),),
        lists=True,
    ),
    Command(
        "deny",
        "refuse a call that waits for a person",
        (
            Option("id", "an approval (a7), or a thread (t3) for all it waits for", needed=True),
            Option("why", "the reason, told to the worker", rest=True),
        ),
        lists=True,
    ),
    Command(
        "retry",
        "do a thread's action again: a new thread that is given what the old one found",
        (
            Option("id", "a thread that has ended, or its episode", kind="thread", needed=True),
            Option("--model", "another logical model", "NAME", kind="model"),
            Option("--limit", f"what it may use now: {', '.join(LIMITS)}", "KEY=N", kind="limit", many=True),
            Option("--background", "return a handle at once", at=("magic",)),
            Option("--quiet", "no live progress"),
        ),
        lists=True,
    ),
    Command(
        "steer",
        "a message that a live thread's worker sees before its next call",
        (
            Option("id", "the thread", kind="thread", needed=True),
            Option("text", "what it is told", needed=True, rest=True),
        ),
        at=("magic",),
    ),
    Command(
        "wait",
        "wait until everything that was dispatched has settled",
        (Option("--timeout", "give up after S seconds; the threads go on", "S"),),
        at=("magic",),
    ),
    Command(
        "cost",
        "what was spent",
        (Option("--by", "only by model, thread or kind of call", "WHAT", choices=("model", "thread", "kind")),),
        lists=True,
    ),
    Command("graph", "the weave: threads, episodes and what they cite", at=("magic",)),
    Command(
        "budget",
        "the brief of a thread by source against its model's window",
        (Option("id", "a thread id (default: the newest)", kind="thread"),),
        lists=True,
    ),
    *_memory(),
    Command(
        "frames",
        "a frame of the store; without a name, which there are",
        (Option("name", "which frame; `frames` alone lists them", kind="frame", choices=FRAMES),),
        lists=True,
    ),
    Command(
        "models",
        "logical models, their routes, keys and prices",
        (
            Option("get", "`get NAME`: fetch the weights of an embedded model", choices=("get",), at=("program",)),
            Option("name", "the weights to get (default: the project's own)", at=("program",)),
        ),
        lists=True,
    ),
    Command(
        "replay",
        "what answers are recorded and replayed; with a mode, what happens from now on",
        (
            Option(
                "mode",
                "auto (replay, and record what is missing), record (everything anew) or replay (never go out)",
                choices=("auto", "record", "replay"),
                at=("magic",),
            ),
        ),
        lists=True,
    ),
    Command(
        "store",
        "read all of the store and list what is wrong with it",
        (Option("action", "`verify`", choices=("verify",), needed=True),),
        lists=True,
    ),
    Command(
        "config",
        "the configuration in force",
        (Option("--schema", "the JSON Schema of slate.yaml instead"),),
        lists=True,
    ),
    Command(
        "init",
        "write a commented slate.yaml and starter texts",
        (
            Option("path", "the folder (default: the current one)", kind="folder"),
            Option("--force", "overwrite files that are there"),
        ),
        lab=False,
        lists=True,
    ),
    Command(
        "ask",
        "one turn of this project's session, through its slots",
        (
            Option("prompt", "what is asked, one text in quotes, passed on verbatim", rest=True),
            Option("--session", "a session's id, or `new` (default: the newest)", "ID"),
            Option("--model", "logical model", "NAME", kind="model"),
            Option("--attach", "paths that slots are told of", "PATHS", many=True),
        ),
        body="prompt",
        lists=True,
    ),
    Command(
        "slots",
        "the slots of this project: phases, lanes, order, policies, capabilities",
        (Option("--check", "import each one too"),),
        lists=True,
    ),
    Command(
        "slot",
        "write the cell's code as a slot and list it in the pipeline",
        (
            Option("where", "its phase and name: input/recall", needed=True),
            Option("code", "its code", rest=True),
            Option("--parallel", "list it in the parallel lane"),
            Option("--describe", "its description", "TEXT"),
            Option("--capability", "what it may use", "NAMES", many=True),
            Option("--failure", "its failure policy", "WORD", choices=("soft", "hard")),
            Option("--history", "its history policy", "WORD", choices=("persist", "model_hidden", "transient")),
        ),
        body="code",
        at=("magic",),
    ),
    Command(
        "trust",
        "let what this project brings count as it stands: its code, providers and prompts",
        (
            Option("path", "the folder (default: the current one)", kind="folder"),
            Option("--show", "only say what it would cover and what changed"),
            Option("--forget", "take the trust back"),
        ),
        lab=False,
        lists=True,
    ),
    Command(
        "check",
        "read the configuration and list every problem",
        (Option("path", "the folder (default: the current one)", kind="folder"),),
        lab=False,
        lists=True,
        at=("program",),
    ),
    Command(
        "demo",
        "run four threads on a real model and save an HTML report",
        (Option("--out", "where to put it (default: the current folder)", "DIR", kind="folder"),),
        lab=False,
        at=("program",),
    ),
    Command("help", "this text, or a command's options", (Option("command", "a command", kind="command"),), lab=False),
)  # fmt: skip


def commands(place: Place) -> dict[str, Command]:
    """The commands of one place, by name, each with only the options it has there."""
    here = {}
    for command in COMMANDS:
        if place in command.at:
            options = tuple(o for o in command.options if place in o.at) + _common(command, place)
            here[command.name] = Command(**{**vars(command), "options": options})
    return here


def _common(command: Command, place: Place) -> tuple[Option, ...]:
    if place == "magic" or command.name == "help":
        return ()
    project = Option("--project", "the project's folder (default: the current one)", "DIR", kind="folder")
    return (project, Option("--json", "print JSON")) if command.lists else (project,)
