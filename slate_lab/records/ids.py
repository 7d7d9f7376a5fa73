"""Ids: `t12` for a thread, `t12.e1` for its episode, unique in one store; and near matches for a mistyped one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_THREAD = re.compile(r"t[1-9][0-9]{0,17}", re.ASCII)
_EPISODE = re.compile(r"t[1-9][0-9]{0,17}\.e1", re.ASCII)


def is_thread_id(text: str) -> bool:
    """Whether `text` is written like a thread id."""
    return _THREAD.fullmatch(text) is not None


def is_episode_id(text: str) -> bool:
    """Whether `text` is written like an episode id."""
    return _EPISODE.fullmatch(text) is not None


def episode_id(thread: str) -> str:
    """The id of the episode that ends `thread`."""
    return f"{thread}.e1"


def thread_of(episode: str) -> str:
    """The thread an episode id belongs to."""
    return episode.partition(".")[0]


def near(word: str, known: Iterable[str], *, limit: int = 3) -> list[str]:
    """The known words closest to `word`, best first, at most `limit`."""
    return difflib.get_close_matches(word, list(known), n=limit, cutoff=0.5)
