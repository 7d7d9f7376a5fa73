"""The chat template, rendered as the server renders it."""

from __future__ import annotations

from typing import Any

import jinja2
import pytest

from slate_lab.models.local import template_path

CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
TOOL = {"name": "read", "description": "Read a file.", "parameters": {}}


def render(messages: list[dict[str, Any]], **more: Any) -> str:
    """The prompt."""
    template = jinja2.Environment().from_string(template_path("bare_calls").read_text())
    return template.render(messages=messages, add_generation_prompt=True, **more)


def test_a_plain_chat_is_plain_chatml() -> None:
    """Without tools nothing is added to what was said, turn by turn."""
    chat = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "U"},
        {"role": "assistant", "content": "A"},
        {"role": "user", "content": "V"},
    ]
    assert render(chat) == (
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n"
        "<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"
    )


def test_offered_tools_stand_in_the_system_turn_one_a_line() -> None:
    """The system turn says how to call; the user turn is the task, byte for byte."""
    prompt = render([{"role": "system", "content": "S"}, {"role": "user", "content": "Do <it>."}], offered=[TOOL, TOOL])
    system, user = prompt.split("<|im_end|>\n")[:2]
    assert system.count('"name": "read"') == 2
    assert 'no fence:\n{"name": "<tool>", "arguments": {"<argument>": "<value>"}}' in system
    assert user == "<|im_start|>user\nDo <it>."


@pytest.mark.parametrize("offered", [None, [TOOL]], ids=["must answer", "may look again"])
def test_results_are_told_in_the_users_turn_with_the_call_they_answer(offered: list[dict[str, Any]] | None) -> None:
    """One user turn holds task, results and what came after them in their order; no turn shows a call to imitate."""
    chat = [
        {"role": "user", "content": "Do it."},
        {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "c2"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
        {"role": "user", "content": "You have 3 turns left."},
    ]
    prompt = render(chat, offered=offered)
    assert prompt.count("<|im_start|>") == 3
    assert (
        'Do it.\n\nResult of read {"path": "a"}:\none\n\nResult of read {"path": "a"}:\ntwo\n\nYou have 3 turns left.'
        "\n\nAnswer the task now in plain text"
    ) in prompt
    assert ("Call another tool only" in prompt) == (offered is not None)
