"""Claims: which paths an action says it will write, and whether two such claims may meet.

In: path globs as written. Out: problems, and whether two globs can name the same path. Pure; called by admission.
A glob is relative to the workspace; `*`, `?` and `[...]` stay within a name, `**` crosses folders, and a plain name
without an extension also claims everything below it (`src`, and `v1.2/` with its slash). Where it is not certain that
two claims keep apart, they meet.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache

from slate_lab.errors import Problem

__all__ = ["MAX_CLAIMS", "claim_problems", "held", "meet"]

MAX_CLAIMS = 64
MAX_CHARS = 300
MAX_PARTS = 32

_ANY = "*?["


def claim_problems(claims: Iterable[str]) -> list[Problem]:
    """What is wrong with the claims as they are written."""
    claims = list(claims)
    found = [Problem("bad_claim", f"{len(claims)} claims: at most {MAX_CLAIMS}")] if len(claims) > MAX_CLAIMS else []
    return found + [Problem("bad_claim", why) for claim in claims[:MAX_CLAIMS] if (why := _wrong(claim))]


def _wrong(claim: str) -> str | None:
    parts = claim.replace("\\", "/").split("/")
    shown = repr(claim[:60])
    if not claim.strip() or not claim.isprintable() or len(claim) > MAX_CHARS or len(parts) > MAX_PARTS:
        return f"the claim {shown} is no path: write one like src/** or notes/a.md"
    if claim.startswith(("/", "\\", "~")) or claim[1:2] == ":" or ".." in parts:
        return f"the claim {shown} leads out of the workspace: write it relative to it"
    return None


def held(claims: Iterable[str], others: Mapping[str, Iterable[str]]) -> list[Problem]:
    """Claims that meet one of another action: `others` are claims by what to call their holder."""
    found: list[Problem] = []
    for claim in dict.fromkeys(claims):
        for holder, theirs in others.items():
            other = next((other for other in theirs if meet(claim, other)), None)
            if other is not None:
                text = f"the claim {claim!r} meets {other!r} of {holder}: wait for it (after=...), or cancel it"
                found.append(Problem("claim_held", text))
                break
    return found


def meet(one: str, two: str) -> bool:
    """Whether the two globs can name the same path, or one a folder above the other's."""
    return _meet(_parts(one), _parts(two))


def _parts(glob: str) -> tuple[str, ...]:
    text = unicodedata.normalize("NFC", glob.replace("\\", "/")).casefold()  # some disks know no other difference
    parts = tuple(part for part in text.split("/") if part not in ("", "."))
    return parts if (parts and parts[-1] == "**") or not text.endswith("/") else (*parts, "**")


@lru_cache(maxsize=4096)
def _meet(one: tuple[str, ...], two: tuple[str, ...], above: tuple[str, str] = ("", "")) -> bool:
    """`above` holds the last part of each that was passed: a plain name at the end claims what is below it."""
    if not one or not two:
        rest, last = (two, above[0]) if not one else (one, above[1])
        return all(part == "**" for part in rest) or not any(c in last.lstrip(".") for c in f"{_ANY}.")
    if one[0] == "**":
        return _meet(one[1:], two, ("**", above[1])) or _meet(one, two[1:], ("**", two[0]))
    if two[0] == "**":
        return _meet(two, one, (above[1], above[0]))
    return _names_meet(one[0], two[0]) and _meet(one[1:], two[1:], (one[0], two[0]))


@lru_cache(maxsize=4096)
def _names_meet(one: str, two: str) -> bool:
    """Whether two globs of one name can be the same name; a set of characters counts as any character."""
    a, b = _signs(one), _signs(two)
    row = [True] + [False] * len(b)
    for j, sign in enumerate(b, 1):
        row[j] = row[j - 1] and sign == "*"
    for left in a:
        above, row = row, [row[0] and left == "*"] + [False] * len(b)
        for j, right in enumerate(b, 1):
            if left == "*" or right == "*":
                row[j] = above[j] or row[j - 1] or above[j - 1]
            else:
                row[j] = above[j - 1] and (left == right or "?" in (left, right))
    return row[-1]


def _signs(name: str) -> list[str]:
    signs: list[str] = []
    at = 0
    while at < len(name):
        end = name.find("]", at + 2) if name[at] == "[" else -1
        signs.append("?" if end > 0 else name[at])
        at = end + 1 if end > 0 else at + 1
    return signs
