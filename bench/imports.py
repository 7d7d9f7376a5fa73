"""Import: `import slate_lab` beside a bare interpreter, medians of fresh processes.

Also `%load_ext slate_lab` in a fresh IPython shell, and what must not be loaded by the import.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator

_TIME = "import time; a = time.perf_counter(); {what}; print(time.perf_counter() - a)"
_HEAVY = "pandas IPython httpx aiohttp pydantic ipywidgets tiktoken"


def seconds(what: str, runs: int = 7) -> float:
    """Median seconds that `what` takes in a fresh process."""
    code = _TIME.format(what=what)
    times = [
        float(
            subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()[-1]
        )
        for _ in range(runs)
    ]
    return statistics.median(times)


def rows() -> Iterator[str]:
    yield f"import slate_lab             {seconds('import slate_lab') * 1000:7.1f} ms   (mark: under 300 ms)"
    yield f"the same, with Lab           {seconds('from slate_lab import Lab') * 1000:7.1f} ms"
    yield f"beside: import json, asyncio {seconds('import json, asyncio') * 1000:7.1f} ms"
    load = (
        "from IPython.core.interactiveshell import InteractiveShell as S; s = S.instance(); "
        "a = time.perf_counter(); s.run_line_magic('load_ext', 'slate_lab')"
    )
    yield f"%load_ext slate_lab          {seconds(load) * 1000:7.1f} ms   in a running shell"
    check = f"import sys, slate_lab; print([m for m in '{_HEAVY}'.split() if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True).stdout.strip()
    yield f"loaded by the import         {loaded}   (mark: none)"
