"""How the tokens of an attempt were counted: statements that bring an older store to it.

Called by `migrations`. `counted` is `exact` where the provider reported them, `estimated` where the lab counted
itself, `unknown` where nobody did.
"""

# ruff: noqa: S608 - only names of columns are put into statements, never values
from __future__ import annotations

__all__ = ["COUNTED"]

_BUCKETS = "input_fresh, cache_read, cache_write_5m, cache_write_1h, output, reasoning, total_reported, flagged"
_MARK = """CASE WHEN coalesce(input_fresh, cache_read, output, reasoning) IS NULL THEN 'unknown'
    WHEN coalesce(json_extract(raw_usage, '$.estimated_by'), json_extract(raw_usage, '$.counted_by')) IS NOT NULL
    THEN 'estimated' ELSE 'exact' END"""

COUNTED: tuple[str, ...] = (
    "DROP VIEW attempts",
    f"""CREATE VIEW attempts AS SELECT call, n, outcome, status, started_ns, ended_ns, waited_s, paced_s,
    waited_s - paced_s AS retried_s, first_token_ns, {_BUCKETS}, {_MARK} AS counted, cost_nusd, price, recorded,
    recorded_nusd, recorded_price, response_id, error FROM attempt""",
)
