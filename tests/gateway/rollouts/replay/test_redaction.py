from typing import Any

import pytest

from gateway.rollouts.replay.redaction import NotRedactable, Redaction
from safety.action import Action
from safety.screen import Rule
from safety.terms import TermFilter

REDACTION = Redaction([Rule("terms", TermFilter("terms", ["anna"], words=True), Action.FLAG)])


def test_no_place_of_a_body_says_who_the_user_is() -> None:
    body: dict[str, Any] = {
        "user": "u-1",
        "safety_identifier": "u-1",
        "prompt_cache_key": "u-1",
        "cache_salt": "u-1",
        "metadata": {"user_id": "u-1"},
        "web_search_options": {"search_context_size": "low", "user_location": {"approximate": {"city": "u-1"}}},
        "messages": [
            {"role": "system", "content": "Be kind to anna."},
            {"role": "user", "name": "u-1", "content": [{"type": "text", "text": "I am anna."}]},
            {"role": "user", "name": "u-1 too", "content": "And I am not."},
            {"role": "assistant", "name": "u-1", "content": None, "tool_calls": [call('{"to": "anna"}')]},
            {"role": "function", "name": "send", "content": "sent to anna"},
            {"role": "user", "name": "u-1 too", "content": ""},
        ],
        # A parameter of a tool is no identity.
        "tools": [tool("send", {"user": {"type": "string"}, "user_location": {"type": "string"}})],
    }
    found = REDACTION.body(body)
    assert "u-1" not in str(found)
    assert "anna" not in str(found)
    assert [message.get("name") for message in found["messages"]] == [
        *(None, "participant-1", "participant-2", "participant-1", "send", "participant-2")
    ]
    assert found["web_search_options"] == {"search_context_size": "low"}
    assert found["tools"] == body["tools"]


@pytest.mark.parametrize("part", [{"type": "image_url", "image_url": {"url": "data:,"}}, {"type": "file"}, {}, "text"])
def test_what_cannot_be_redacted_is_refused(part: Any) -> None:
    with pytest.raises(NotRedactable, match=r"messages\[0\]\.content"):
        REDACTION.body({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}, part]}]})


def call(arguments: str) -> dict[str, Any]:
    return {"id": "c", "type": "function", "function": {"name": "send", "arguments": arguments}}


def tool(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}
