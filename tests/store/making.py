"""What the store's tests write: a thread and an episode."""

from slate_lab.records import Action, Episode, Evidence, Finding, Thread, Usage, episode_id
from slate_lab.store import Store


def queue(store: Store, task: str = "look", **rest: object) -> Thread:
    """A thread for `task` on the route local/small."""
    action = Action(task=task, **rest)  # type: ignore[arg-type]
    return store.threads.queue(action, logical="local", provider="local", model="small", window=8192)


def episode_of(thread: str, **rest: object) -> Episode:
    """An episode of `thread` with something in every section."""
    values: dict[str, object] = {
        "task": "look",
        "intent": "to see",
        "actions": ("read a.md",),
        "findings": (Finding(text="17 files", evidence=(Evidence(1, 2, "17"),)),),
        "artifacts": ({"path": "a.md", "before": None, "after": "ab"},),
        "issues": ("none",),
        "handoff": "go on",
        "usage": {"worker": Usage(input_fresh=10, output=2)},
    }
    return Episode(id=episode_id(thread), thread=thread, **(values | rest))  # type: ignore[arg-type]
