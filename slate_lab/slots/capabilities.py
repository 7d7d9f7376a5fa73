"""Capabilities: what a slot may do beyond its own turn, granted by its manifest within what the project allows.

In: patterns of the manifest and of the project. Out: whether a name is granted. Called by `context` and by listings.
A `*` at the end stands for any rest. A secret (`secret:NAME`, `secret.read:NAME`) is never reached by one: it must
stand in full on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

__all__ = ["Grants", "is_secret", "matches"]


class Grants(Struct, frozen=True):
    """What one slot is granted: what its manifest asks for and the project allows."""

    asked: tuple[str, ...]
    allowed: tuple[str, ...]

    def can(self, name: str) -> bool:
        """Whether the capability `name` is granted."""
        return _any(self.asked, name) and _any(self.allowed, name)

    @property
    def withheld(self) -> tuple[str, ...]:
        """What the manifest asks for and the project does not allow, as it stands there."""
        return tuple(asked for asked in self.asked if not _covered(asked, self.allowed))


def is_secret(name: str) -> bool:
    """Whether the capability opens a secret."""
    return name.partition(":")[0].partition(".")[0].lower() in ("secret", "secrets")


def matches(pattern: str, name: str) -> bool:
    """Whether `pattern` covers `name`."""
    if pattern == name:
        return "*" not in name
    return pattern.endswith("*") and not is_secret(name) and name.startswith(pattern[:-1])


def _any(patterns: Sequence[str], name: str) -> bool:
    return any(matches(pattern, name) for pattern in patterns)


def _covered(asked: str, allowed: Sequence[str]) -> bool:
    """Whether the project allows all, or at least some, of what a pattern asks for."""
    if not asked.endswith("*"):
        return _any(allowed, asked)
    stem = asked[:-1]
    return any(p[:-1].startswith(stem) or stem.startswith(p[:-1]) if p.endswith("*") else p.startswith(stem)
               for p in allowed)  # fmt: skip
