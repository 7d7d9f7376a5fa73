"""Delivers what the model answered, and keeps it in the session."""


def process(ctx):
    """Deliver the answer."""
    ctx.send_text(ctx.output.response_text)
