"""Tools of the Responses API: functions alone and in namespaces, and those that no model here has."""

import re
from typing import Any

import pytest

from gateway.api.responses.responses_tools import NamedTool, chat_tools, shown_tools
from protos.errors import InvalidRequest, UnsupportedParameter
from tests.gateway.api.responses.test_responses_translation import TOOL, messages

SPAWN = {"type": "function", "name": "spawn", "parameters": {"type": "object"}}
AGENTS = {"type": "namespace", "name": "agents", "description": "d", "tools": [SPAWN, TOOL]}


def test_functions_of_a_namespace_are_functions_by_names_that_differ() -> None:
    tools = chat_tools([AGENTS, TOOL], "auto")
    assert [tool["function"]["name"] for tool in tools.fields["tools"]] == ["spawn", "agents__f", "f"]
    assert tools.namespaced == {"spawn": NamedTool("agents", "spawn"), "agents__f": NamedTool("agents", "f")}
    assert tools.chat_name("agents", "f") == "agents__f"
    assert tools.chat_name(None, "f") == tools.chat_name("others", "f") == "f"


def test_what_a_namespace_is_for_is_said_to_the_model() -> None:
    tools = chat_tools([AGENTS | {"tools": [SPAWN | {"description": "Begins one."}, TOOL]}], None)
    assert [tool["function"].get("description") for tool in tools.fields["tools"]] == [
        "d\n\nBegins one.",
        TOOL.get("description"),
    ]
    assert chat_tools([AGENTS], None).fields["tools"][0]["function"]["description"] == "d"


def test_names_in_the_chat_are_a_chats() -> None:
    odd = AGENTS | {"name": "my.apps/" + "x" * 140, "tools": [TOOL]}
    groups = [AGENTS, odd, AGENTS | {"name": "agents"}, AGENTS | {"name": "agents"}]
    tools = chat_tools([TOOL, {"type": "function", "name": "agents__f"}, *groups], None)
    names = [tool["function"]["name"] for tool in tools.fields["tools"]]
    assert len(set(names)) == len(names) == 9
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,128}", name) for name in names)
    assert names[3] == "agents__f_2"
    assert tools.namespaced[names[3]] == NamedTool("agents", "f")
    # Of several that are the same to the client, the first is meant.
    assert tools.chat_name("agents", "f") == "agents__f_2"


def test_a_namespace_may_be_allowed() -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "namespace", "name": "agents"}]}
    for drop in (False, True):
        tools = chat_tools([TOOL, AGENTS], choice, drop=drop)
        assert [tool["function"]["name"] for tool in tools.fields["tools"]] == ["spawn", "agents__f"]
        assert tools.places == ("tools[1].tools[0]", "tools[1].tools[1]")
    with pytest.raises(InvalidRequest, match="none of 'tools'"):
        chat_tools([TOOL, AGENTS], choice | {"tools": [{"type": "namespace", "name": "others"}]})


def test_tools_are_repeated_in_their_form() -> None:
    function = {"description": None, "parameters": None, "strict": False, "type": "function", "name": "f"}
    search = {"type": "web_search"}
    group = {"type": "namespace", "name": "agents", "description": "d", "tools": [{"type": "function", "name": "f"}]}
    assert shown_tools([search, group]) == [search, group | {"tools": [function]}]
    assert shown_tools(None) == []


def test_earlier_calls_of_a_namespace_have_the_chats_names() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "namespace": "agents"}
    output = {"type": "function_call_output", "call_id": "c", "output": "x", "namespace": "agents"}
    found = messages({"role": "user", "content": "x"}, call, output, tools=[AGENTS, TOOL])
    assert found[1]["tool_calls"][0]["function"]["name"] == "agents__f"


def test_tools_that_no_model_has_are_left_out() -> None:
    custom = {"type": "custom", "name": "patch"}
    group = AGENTS | {"tools": [custom, SPAWN]}
    choice = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "web_search"}, {"type": "function", "name": "f"}],
    }
    tools = chat_tools([{"type": "web_search"}, TOOL, custom, group], choice, drop=True)
    assert [tool["function"]["name"] for tool in tools.fields["tools"]] == ["f"]
    assert tools.adjusted == (
        "tools[0]=web_search:ignored",
        "tools[2]=custom:ignored",
        "tools[3].tools[0]=custom:ignored",
    )
    assert chat_tools([{"type": "web_search"}], "auto", drop=True).fields == {}
    with pytest.raises(UnsupportedParameter):
        chat_tools([{"type": "Evil\r\n"}], None, drop=True)


@pytest.mark.parametrize("name", [[], {"a": 1}, 3, None])
def test_a_name_that_is_no_text_is_refused(name: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        chat_tools([{"type": "function", "name": name}, AGENTS], None)
    assert refused.value.param == "tools[0].name"


@pytest.mark.parametrize(
    "choice", ["required", {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}]
)
def test_a_call_cannot_be_required_of_tools_that_no_model_has(choice: str | dict[str, Any]) -> None:
    with pytest.raises(UnsupportedParameter, match=r"none of the tools can be had: web_search, mcp\.") as refused:
        chat_tools([{"type": "web_search"}, {"type": "web_search"}, {"type": "mcp"}], choice, drop=True)
    assert refused.value.param == "tool_choice"
