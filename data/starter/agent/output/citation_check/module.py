"""Tells of citations in an answer that do not hold: `notes/a.md:12` must be a file with at least twelve lines."""

import re

CITED = re.compile(r"(?<![\w/])([\w./-]+\.[A-Za-z]\w{0,5}):(\d+)")


def wrong(text, folder):
    """Each citation that does not hold, with why."""
    found = []
    for name, line in dict.fromkeys(CITED.findall(text)):
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()) or not path.is_file():
            found.append(f"{name}:{line} (no such file)")
            continue
        lines = len(path.read_text(encoding="utf-8", errors="replace").splitlines())
        if not 1 <= int(line) <= lines:
            found.append(f"{name}:{line} (it has {lines} lines)")
    return found


def process(ctx):
    """Check the answer."""
    found = wrong(ctx.output.response_text, ctx.workspace)
    if found:
        ctx.send_text("Citations that do not hold: " + ", ".join(found))
