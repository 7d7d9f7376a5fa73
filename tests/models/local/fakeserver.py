"""The real server process with another engine: it answers with what it was told, and dies when asked to."""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from slate_lab.models.serve import main


def start(options: argparse.Namespace, key: str) -> SimpleNamespace:
    """Listen; the prompt says what to do: `die once`, `wait`, `call`, or anything else to hear the process id."""
    counts = {"asked": 0}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Health and activity."""
            text = f"llamacpp:prompt_tokens_total {counts['asked']}\nllamacpp:requests_processing 0\n"
            self._send(text.encode())

        def do_POST(self) -> None:
            """Answer a chat request."""
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.headers["authorization"] != f"Bearer {key}":
                self.send_error(401)
                return
            counts["asked"] += 1
            prompt = body["messages"][-1]["content"]
            died = Path(options.model).with_name("died")
            if prompt == "die once" and not died.exists():
                died.touch()
                os._exit(1)
            if prompt == "wait":
                time.sleep(30)
            text = '{"name": "ls", "arguments": {}}' if prompt == "call" else f"pid {os.getpid()}"
            self._send(json.dumps(answer(text)).encode())

        def _send(self, data: bytes) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return SimpleNamespace(listening_address=f"http://127.0.0.1:{server.server_port}")


def answer(text: str) -> dict[str, Any]:
    """A whole chat completion."""
    return {
        "id": "x",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
    }


if __name__ == "__main__":
    raise SystemExit(main(start=start))
