"""The outcome table, row by row."""

from __future__ import annotations

import pytest

from slate_lab.weave.outcome import plan_settlement

ROWS = {
    "worker ends normally": ({"ok": True}, ("successful", "compress", None)),
    "ends normally, no model for the compression": (
        {"ok": True, "compress": False},
        ("successful", "uncompressed", None),
    ),
    "a limit was hit, with facts": ({"code": "limit_turns", "facts": 2}, ("failed", "compress", "limit_turns")),
    "a model error, no fact": ({"code": "model_auth"}, ("failed", "fixed", "model_auth")),
    "a model error, no model for the compression": (
        {"code": "model_auth", "facts": 1, "compress": False},
        ("failed", "fixed", "model_auth"),
    ),
    "cancelled after start, no fact": ({"cancelled": True}, ("cancelled", "none", "cancelled")),
    "cancelled after start, some facts": ({"cancelled": True, "facts": 1}, ("failed", "compress", "cancelled")),
    "cancelled twice, some facts": (
        {"cancelled": True, "facts": 1, "compress": False},
        ("failed", "uncompressed", "cancelled"),
    ),
}


@pytest.mark.parametrize(("given", "expected"), ROWS.values(), ids=ROWS)
def test_outcome(given, expected):
    """Each row gives its state, the form of its episode and its code."""
    base = {"ok": False, "code": None, "detail": None, "cancelled": False, "facts": 0, "compress": True}
    got = plan_settlement(**{**base, **given})
    assert (got.state, got.form, got.code) == expected
