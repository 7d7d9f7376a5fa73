"""Writes the conclusions of an answer into a slate: lines that begin with `Conclusion:`, else its last sentence.

Needs the slate in slate.yaml (`slates:`). Runs beside the answer (`output.parallel`): it delivers nothing.
"""

import re

TARGET = "Project Memory/facts/conclusions.md"


def conclusions(text):
    """What is worth remembering of an answer."""
    marked = re.findall(r"(?im)^\W*conclusions?\W*[:.]\s*(.+)$", text)
    if marked:
        return [line.strip() for line in marked]
    sentences = [s.strip() for s in re.split(r"(?<=[.!?])\s+", text.strip()) if s.strip()]
    return sentences[-1:]


def process(ctx):
    """Remember what was concluded."""
    known = ctx.slate.peek(TARGET, fallback="").text
    for line in conclusions(ctx.output.response_text):
        if line in known:
            continue
        result = ctx.slate.write(TARGET, line)
        if not result.ok:
            ctx.notice(f"not remembered ({result.code}): {line[:80]}")
