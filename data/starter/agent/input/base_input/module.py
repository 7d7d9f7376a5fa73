"""Writes the user's message of this turn: what was typed, as it was typed, and the names of attachments before it."""


def process(ctx):
    """Write the user's message."""
    if ctx.input.attachments:
        ctx.input.add("attachments", "\n".join(ctx.input.attachments))
    ctx.input.add("user", ctx.input.raw_text)
