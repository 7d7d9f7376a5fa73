"""What slots deliver, in a cell: images and files where they come, notices as a line, progress as one that changes.

In: deliveries, from any thread. Out: display messages. Called by the magic that asks a session; the texts of a turn are
shown by the turn itself, as Markdown.
"""

from __future__ import annotations

import base64
import html
import uuid
from pathlib import Path

from slate_lab.jupyter.live import Publish, line_bundle
from slate_lab.records import Delivery

__all__ = ["Deliveries", "delivery_bundle"]

_SHOWN = 8_000_000
"""Bytes of an image file that is shown; a larger one is named."""


class Deliveries:
    """Shows the deliveries of one turn; `publish` may be called from any thread."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._progress: str | None = None

    def __call__(self, delivery: Delivery) -> None:
        """Show one."""
        if delivery.kind == "text":
            return
        if delivery.kind != "progress":
            self._publish(delivery_bundle(delivery), uuid.uuid4().hex, update=False)
            return
        update = self._progress is not None
        self._progress = self._progress or uuid.uuid4().hex
        self._publish(delivery_bundle(delivery), self._progress, update=update)


def delivery_bundle(delivery: Delivery) -> dict[str, str]:
    """What stands for a delivery in a notebook."""
    named = f"{delivery.slot}: {delivery.text}"
    if delivery.kind == "progress" and delivery.share is not None:
        return line_bundle(f"{named} {100 * delivery.share:.0f}%")
    if delivery.kind == "image":
        data = _image(delivery)
        if data is not None:
            return {"text/plain": named, delivery.media or "image/png": base64.b64encode(data).decode()}
    if delivery.kind == "file" and delivery.path:
        link = f'<a href="{html.escape(delivery.path)}">{html.escape(delivery.text)}</a>'
        return {"text/plain": f"{named} ({delivery.path})", "text/html": link}
    return line_bundle(named)


def _image(delivery: Delivery) -> bytes | None:
    if delivery.data is not None or delivery.path is None:
        return delivery.data
    try:
        raw = Path(delivery.path).read_bytes()
    except OSError:
        return None  # it went away after it was sent: its name is shown
    return raw if len(raw) <= _SHOWN else None
