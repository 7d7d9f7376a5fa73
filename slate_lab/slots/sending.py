"""What a slot sends to people: texts, images, files, and what passes by; with the history that comes of it.

The part of `ctx` that `context` builds on. In: a call of the slot. Out: staged deliveries and history entries, or an
error that says why not here.
"""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, get_args

from msgspec import Struct

from slate_lab.errors import LabError
from slate_lab.records import Delivery, HistoryEntry
from slate_lab.slots.draft import Draft, Staged
from slate_lab.slots.manifest import HistoryPolicy
from slate_lab.slots.pipelines import Lane
from slate_lab.slots.ports import Ports
from slate_lab.slots.state import plain_value
from slate_lab.slots.surface import Slot

__all__ = ["Sending", "read_policy", "read_text"]

MAX_BYTES = 8_000_000
"""The largest image that is given as bytes."""

MAX_LINE = 2_000
"""Characters of a notice, and of what is said of progress."""

T = TypeVar("T")


class _Said(Struct, frozen=True):
    """One thing to send."""

    delivery: Delivery
    kind: Any
    data: bytes | None = None


class Sending:
    """The sending half of `ctx`, and the checks of phase and lane."""

    def __init__(self, slot: Slot, lane: Lane, draft: Draft, ports: Ports, staged: Staged) -> None:
        self._slot, self._lane, self._draft, self._ports, self._staged = slot, lane, draft, ports, staged
        self._open = True
        self._made: dict[str, Any] = {}

    @property
    def policy(self) -> HistoryPolicy:
        """The manifest's default for what the slot sends."""
        return self._slot.manifest.history_policy

    def send_text(self, text: str, *, history_policy: HistoryPolicy | None = None, visible: bool = True) -> None:
        """Deliver text, and store it in the session as the history policy says.

        Args:
            history_policy: overrides the manifest's.
            visible: whether people see it; what is neither seen nor stored is refused.
        """
        text = read_text("what send_text takes", text)
        self._send(_Said(Delivery(kind="text", text=text, slot=self._slot.id), "text"), history_policy, visible)

    def send_image(
        self,
        image: Any,
        *,
        name: str | None = None,
        history_policy: HistoryPolicy | None = None,
        visible: bool = True,
    ) -> None:
        """Deliver an image: a path inside the project, bytes, or anything that shows itself as PNG."""
        self._send(self._image(image, name), history_policy, visible)

    def send_file(
        self,
        path: str | Path,
        *,
        name: str | None = None,
        history_policy: HistoryPolicy | None = None,
        visible: bool = True,
    ) -> None:
        """Deliver a file inside the project."""
        file = self._inside(path)
        media = mimetypes.guess_type(file.name)[0]
        delivery = Delivery(kind="file", text=name or file.name, slot=self._slot.id, path=str(file), media=media)
        self._send(_Said(delivery, "file"), history_policy, visible)

    def progress(self, text: str, share: float | None = None) -> None:
        """Say what is being done; shown at once, never stored."""
        self._check_open()
        self._ports.live(Delivery(kind="progress", text=_line(text), slot=self._slot.id, share=share))

    def notice(self, text: str) -> None:
        """Tell people something; shown at once, never stored."""
        self._check_open()
        self._ports.live(Delivery(kind="notice", text=_line(text), slot=self._slot.id))

    # checks

    def stage(self, *, serial: str = "") -> Staged:
        """Where contributions are put; with `serial` only the serial lane may do what it says."""
        self._check_open()
        if serial and self._lane != "serial":
            text = f"{self._slot.id} runs in {self._slot.phase}.parallel and cannot {serial}: list it in serial"
            raise LabError(text, code="lane_forbidden")
        return self._staged

    def plain(self, value: Any) -> Any:
        """`value` as JSON holds it, a copy."""
        return plain_value("the result", value)

    def _check_open(self) -> None:
        if not self._open:
            raise LabError(f"the run of the slot {self._slot.id} is over: its ctx does nothing more", code="slot_over")

    def _check_phase(self, phase: str) -> None:
        self._check_open()
        if self._slot.phase != phase:
            text = f"{self._slot.id} is a slot of {self._slot.phase}: this exists in {phase} slots only"
            raise LabError(text, code="phase_forbidden")

    def _once(self, name: str, make: Callable[[], T]) -> T:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = make()
        return made

    # sending

    def _send(self, said: _Said, policy: HistoryPolicy | None, visible: bool) -> None:
        if self._slot.phase == "bootstrap":
            raise LabError("a bootstrap slot delivers nothing: it runs before the first turn", code="phase_forbidden")
        staged = self.stage(serial="deliver" if self._slot.phase == "output" else "")
        held = read_policy(policy, self.policy)
        if held == "transient" and not visible:
            text = "what is neither shown nor stored would go nowhere: leave visible=False or transient away"
            raise LabError(text, code="bad_value")
        if visible:
            staged.deliveries.append(said.delivery)
        if held != "transient":
            label = said.delivery.text if said.kind == "text" else f"[{said.kind} {said.delivery.text}]"
            entry = HistoryEntry(turn=self._draft.turn, role="assistant", text=label, slot=self._slot.id,
                                 kind=said.kind, visible=held == "persist", data=said.data)  # fmt: skip
            staged.history.append(entry)

    def _image(self, image: Any, name: str | None) -> _Said:
        if isinstance(image, str | Path):
            file = self._inside(image)
            media = mimetypes.guess_type(file.name)[0] or ""
            if not media.startswith("image/"):
                raise LabError(f"{file.name} is no image by its name: send_file delivers it", code="bad_value")
            delivery = Delivery(kind="image", text=name or file.name, slot=self._slot.id, path=str(file), media=media)
            return _Said(delivery, "image")
        data = image if isinstance(image, bytes) else _png(image)
        if len(data) > MAX_BYTES:
            raise LabError(f"the image has {len(data):,} bytes: at most {MAX_BYTES:,}; send a file", code="bad_value")
        delivery = Delivery(kind="image", text=name or "image", slot=self._slot.id, data=data, media=_media(data))
        return _Said(delivery, "image", data)

    def _inside(self, path: str | Path) -> Path:
        """A file inside the workspace, the slot's folder or the project."""
        given = Path(path)
        bases = [self._draft.workspace, self._slot.folder]
        found = given if given.is_absolute() else next((b / given for b in bases if (b / given).is_file()), given)
        real = Path(os.path.realpath(found))
        if not any(real.is_relative_to(os.path.realpath(base)) for base in bases):
            raise LabError(f"{path} lies outside the workspace: only files inside are delivered", code="bad_value")
        if not real.is_file():
            raise LabError(f"there is no file {path} to deliver", code="bad_value")
        return real


def read_text(what: str, value: Any) -> str:
    """Text that can be stored; `what` names it in the error."""
    if not isinstance(value, str):
        raise LabError(f"{what} is text, not a {type(value).__name__}", code="bad_value")
    try:
        value.encode()
    except UnicodeEncodeError as e:
        raise LabError(f"{what} holds half a character at {e.start}: it cannot be stored", code="bad_value") from e
    return value


def _line(text: Any) -> str:
    """What passes by, as text that can be shown."""
    return str(text)[:MAX_LINE].encode("utf-8", "replace").decode()


def read_policy(given: HistoryPolicy | None, default: HistoryPolicy) -> HistoryPolicy:
    """The history policy of one call."""
    policy = default if given is None else given
    if policy not in get_args(HistoryPolicy):
        words = ", ".join(get_args(HistoryPolicy))
        raise LabError(f"a history policy is one of {words}, not {given!r}", code="bad_value")
    return policy


def _png(value: Any) -> bytes:
    """What an object shows itself as: `_repr_png_`, or a figure's `savefig`."""
    show = getattr(value, "_repr_png_", None)
    found = show() if callable(show) else None
    if isinstance(found, bytes):
        return found
    if callable(getattr(value, "savefig", None)):
        from io import BytesIO

        buffer = BytesIO()
        value.savefig(buffer, format="png")
        return buffer.getvalue()
    raise LabError(f"a {type(value).__name__} is no image: give a path, bytes, or a figure", code="bad_value")


def _media(data: bytes) -> str:
    heads = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}
    return next((media for head, media in heads.items() if data.startswith(head)), "image/png")
