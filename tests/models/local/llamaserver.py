"""llama.cpp's own HTTP server on loopback, with its own reading of tool calls: for tests of the protocols alone.

Run as a program: `llamaserver.py MODEL.gguf` prints its port and serves until its standard input ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

CONTEXT = 4096


def main() -> None:
    """Serve."""
    import xllamacpp

    p = xllamacpp.CommonParams()
    p.model.path = sys.argv[1]
    p.model_alias = {"small"}
    p.n_ctx, p.n_parallel = CONTEXT, 1
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 2
    p.n_gpu_layers = 0
    p.hostnames, p.port = ["127.0.0.1"], 0
    p.cors_origins, p.cors_credentials = "http://127.0.0.1", False
    p.ui = p.endpoint_slots = p.endpoint_props = False
    p.endpoint_metrics = True
    p.use_jinja, p.chat_template = True, (Path(__file__).parent / "bare.jinja").read_text(encoding="utf-8")
    p.cache_ram_mib = 64
    p.verbosity = 2
    server = xllamacpp.Server(p)
    print(f"PORT {server.listening_address.rpartition(':')[2]}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
