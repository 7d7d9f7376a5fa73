"""A few settled actions, small and whole: what was asked, the facts, the last answer."""

from __future__ import annotations

from slate_lab.records import Action, Fact

LOG = """\
2025-11-02T09:10:01Z INFO  deploy: release 4.2.1 starts on web-03
2025-11-02T09:14:22Z INFO  deploy: release 4.2.1 done in 261 s
2025-11-02T09:16:05Z WARN  gateway: error rate 7.5 % (threshold 1 %)
2025-11-02T09:16:40Z ERROR orders: PoolTimeout after 30 s, max_connections=20
2025-11-02T09:20:11Z WARN  queue: depth 18,000
2025-11-02T09:40:00Z INFO  deploy: rolled back to 4.2.0"""

ANSWER = "The error rate rose to 7.5 % at 09:16 because orders ran out of connections (max_connections=20)."


def read_log(task: str = "Why did the error rate rise after the deploy? Read logs/deploy.log.") -> Action:
    """A question about a log."""
    return Action(task=task, type="researcher")


def facts_of(*texts: str, final: str = ANSWER, tool: str = "read", path: str = "logs/deploy.log") -> list[Fact]:
    """Tool results in order, then the last answer."""
    made = [Fact(n=i, kind="tool", tool=tool, arguments={"path": path}, text=t) for i, t in enumerate(texts, 1)]
    return [*made, Fact(n=len(made) + 1, kind="text", text=final)]
