"""The shipped logical models: the embedded one, and one or two of each major family.

The ratings are this project's judgement, made from the providers' own descriptions and prices in late 2026, and not a
measurement: they order the choices, nothing more. Replace them under `models.replace` with what you find yourself.
Where a family offers several efforts the definition takes the cheapest one that fits its guidelines.
"""

from __future__ import annotations

from slate_lab.models.catalog import LOCAL_MODEL
from slate_lab.routing.logical import LogicalModel

__all__ = ["JUDGEMENT", "POOL"]

JUDGEMENT = "Ratings are this project's judgement, not a measurement."

POOL: tuple[LogicalModel, ...] = (
    LogicalModel(
        model="local",
        capability_rating=5,
        effort="off",
        cost_rating=1,
        preferred_provider="local",
        providers={"local": LOCAL_MODEL},
        guidelines="Runs on this machine, free and offline: for trying things out, short extractions, and demos.",
        cautions="Small: slow on long prompts, misses details, calls tools it should not. Check what it says.",
    ),
    LogicalModel(
        model="gpt-luna",
        capability_rating=55,
        effort="off",
        cost_rating=10,
        preferred_provider="openai",
        providers={"openai": "gpt-6-luna"},
        guidelines="Focused work in large numbers: reading, extracting, classifying, compressing.",
        cautions="Thinking is off: replace the effort where a task needs it. Dearer from 272,000 tokens.",
    ),
    LogicalModel(
        model="gpt-sol",
        capability_rating=80,
        effort="low",
        cost_rating=55,
        preferred_provider="openai",
        providers={"openai": "gpt-6.1-sol"},
        guidelines="Hard coding, analysis and reviews with many tool calls.",
        cautions="It always thinks, here a little: replace the effort for more. Dearer from 272,000 tokens.",
    ),
    LogicalModel(
        model="claude-haiku",
        capability_rating=58,
        effort="off",
        cost_rating=12,
        preferred_provider="anthropic",
        providers={"anthropic": "claude-haiku-5-5"},
        guidelines="Fast worker for extraction, routing and small bounded actions.",
        cautions="Thinking is off: replace the effort where a task needs it. Five times the price from 100,000 tokens.",
    ),
    LogicalModel(
        model="claude-sonnet",
        capability_rating=80,
        effort="low",
        cost_rating=55,
        preferred_provider="anthropic",
        providers={"anthropic": "claude-sonnet-5-5"},
        guidelines="Coding, research and reviews that need care over many turns.",
        cautions="It always thinks, here a little: replace the effort for more.",
    ),
    LogicalModel(
        model="gemini-flash",
        capability_rating=68,
        effort="low",
        cost_rating=40,
        preferred_provider="gemini",
        providers={"gemini": "gemini-3.8-flash"},
        guidelines="Long documents and quick work over many files.",
        cautions="Its longest answer is not documented here: set maxOutput for it if a cap matters.",
    ),
    LogicalModel(
        model="gpt-oss",
        capability_rating=45,
        effort="medium",
        cost_rating=8,
        preferred_provider="groq",
        providers={"groq": "openai/gpt-oss-120b", "openrouter": "openai/gpt-oss-120b"},
        guidelines="Open weights, quick and cheap: general work with tools.",
        cautions="A window of 131,072 tokens; weaker on long chains of tool calls.",
    ),
    LogicalModel(
        model="deepseek-flash",
        capability_rating=55,
        effort="off",
        cost_rating=10,
        preferred_provider="openrouter",
        providers={"openrouter": "deepseek/deepseek-v4.1-flash"},
        guidelines="Open weights at a low price, for long inputs.",
        cautions="OpenRouter chooses the host: limits and data handling differ by host.",
    ),
)
"""In the order in which a lab without `defaultModel` looks for a key; the first of each family is its cheap one."""
