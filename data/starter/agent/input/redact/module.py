"""The user's message with keys, passwords and mail addresses masked; stands in the place of base_input.

The model and the session's history see the masked text. The store keeps the prompt as it was typed in the record of
its thread.
"""

from lib.masking import mask


def process(ctx):
    """Write the masked message."""
    text, count = mask(ctx.input.raw_text)
    ctx.input.add("user", text)
    if count:
        ctx.notice(f"{count} masked before the model sees the message")
