"""What official SDKs' types allow is taken, or refused by a line in docs/api.md: the next SDK shows the next gap."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic.types
import openai.types
import openai.types.chat.completion_create_params as chat_params
import openai.types.completion_create_params as completion_params
import openai.types.responses.response_create_params as response_params
import orjson
import pytest
from anthropic.types import message_create_params as message_params

from gateway.api.openai.embeddings import _decoder as embeddings
from gateway.api.responses.compaction_item import compaction_item
from tests.asgi import Client, gateway_of
from tests.gateway.api.sdk_values import PNG, SCHEMA, Case, cases, folded
from tests.harness import MODEL, engine_of, readable_corpus, readable_vocabulary

PAGE = Path("docs/api.md")
HI: dict[str, Any] = {"role": "user", "content": "hi"}
#: By media type: the beginning of such data.
DATA = {
    "image/png": PNG,
    "image/jpeg": "/9j/4AAQSkZJRgABAQAAAQABAAD/2Q==",
    "image/gif": "R0lGODlhAQABAAAAADs=",
    "image/webp": "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==",
    "application/pdf": "JVBERi0xLjQK",
    "wav": "UklGRiQAAABXQVZFZm10IBAAAAABAAEA",
    "mp3": "SUQzAwAAAAAAAAAAAAA=",
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SAMPLES: dict[str, Any] = {
    **dict.fromkeys(("id", "call_id", "tool_call_id", "tool_use_id"), "call_1"),
    **dict.fromkeys(("schema", "parameters", "input_schema"), SCHEMA),
    **dict.fromkeys(("url", "image_url"), "https://example.com/a.png"),
    **dict.fromkeys(("max_tokens", "max_completion_tokens"), 4),
    "arguments": "{}",
    "budget_tokens": 2048,
    "file_data": "data:application/pdf;base64," + DATA["application/pdf"],
    "logit_bias": {"5": 1},
    "max_output_tokens": 16,
    "metadata": {"a": "b"},
    "model": MODEL,
    "name": "f",
    "prompt": "hi",
}


def whole(value: Any, place: str) -> Any:
    """Add what a type leaves out and its description wants, and make data what it says that it is."""
    if isinstance(value, list):
        return [whole(item, place) for item in value]
    if not isinstance(value, dict) or value is SCHEMA:
        return value
    value = {name: whole(item, place) for name, item in value.items()}
    kind = value.get("media_type", value.get("format"))
    if "data" in value and isinstance(kind, str):
        value["data"] = DATA.get(kind, value["data"])
    match value.get("type"):
        case "document" if ".source(" not in place:
            value["source"] = {"type": "text", "media_type": "text/plain", "data": "text"}
        case "compaction":
            value["encrypted_content"] = compaction_item("cmp_1", "So far.")["encrypted_content"]
        case "function_call_output":
            value = {"call_id": "call_1"} | value
        case "input_image" if "file_id" not in value:
            value = {"image_url": SAMPLES["image_url"]} | value
        case "input_file" if not {"file_id", "file_url"} & value.keys():
            value = {"file_data": SAMPLES["file_data"]} | value
        case "file" if isinstance(value.get("file"), dict) and "file_id" not in value["file"]:
            value["file"] = {"file_data": SAMPLES["file_data"]} | value["file"]
        case "json_schema" if "json_schema" in value:
            value["json_schema"] = {"schema": SCHEMA} | value["json_schema"]
    return value


def chat(name: str, value: Any) -> dict[str, Any]:
    if name == "messages":
        (message,) = value
        calls = message.get("tool_calls") or []
        if message["role"] == "assistant" and not calls and message.get("content") is None:
            message = message | {"content": "yes"}
        before = [HI, {"role": "assistant", "tool_calls": [CALL]}] if message["role"] == "tool" else [HI]
        after = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls]
        value = [*before, message, *after, *([] if message["role"] == "tool" else [HI])]
    beside: dict[str, Any] = {
        "parallel_tool_calls": {"tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]},
        "stream_options": {"stream": True},
        "top_logprobs": {"logprobs": True},
    }
    beside["tool_choice"] = beside["parallel_tool_calls"]
    if name == "tool_choice" and isinstance(value, dict) and "allowed_tools" in value:
        named = [{"type": "function", "function": {"name": "f"}}]
        value = value | {"allowed_tools": value["allowed_tools"] | {"tools": named}}
    return {"messages": [HI], **beside.get(name, {}), name: value}


def completion(name: str, value: Any) -> dict[str, Any]:
    if name == "prompt" and isinstance(value, list):
        value = [[5] if isinstance(item, list) else item for item in value]
    return {"prompt": "hi", "max_tokens": 4, **({"stream": True} if name == "stream_options" else {}), name: value}


def response(name: str, value: Any) -> dict[str, Any]:
    call = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
    if name == "input" and isinstance(value, list):
        (item,) = value
        output = item.get("type") == "function_call_output"
        after = {"type": "function_call_output", "call_id": "call_1", "output": "ok"}
        value = [HI, *([call] if output else []), item]
        value += [after] if item.get("type") == "function_call" else [] if output else [HI]
    function = {"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}
    beside: dict[str, Any] = {key: {"tools": [function]} for key in ("tool_choice", "parallel_tool_calls")}
    beside |= {"stream_options": {"stream": True}, "background": {"store": True}}
    if name == "tool_choice" and isinstance(value, dict) and "tools" in value:
        value = value | {"tools": [{"type": "function", "name": "f"}]}
    return {"input": "hi", "max_output_tokens": 16, "store": False, **beside.get(name, {}), name: value}


def message(name: str, value: Any) -> dict[str, Any]:
    if name == "messages":
        (one,) = value
        blocks = one["content"] if isinstance(one["content"], list) else [{}]
        match blocks[0].get("type"):
            case "tool_use":
                result = {"type": "tool_result", "tool_use_id": blocks[0]["id"], "content": "ok"}
                value = [HI, {"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
            case "tool_result" if one["role"] == "user":
                call = {"type": "tool_use", "id": "call_1", "name": "f", "input": {}}
                value = [HI, {"role": "assistant", "content": [call]}, one]
            case "thinking" | "redacted_thinking":
                value = [HI, {"role": "assistant", "content": blocks}, HI]
            case _:
                value = [HI, one, HI]
    beside: dict[str, Any] = {"tool_choice": {"tools": [{"name": "f", "input_schema": SCHEMA}]}}
    return {"messages": [HI], "max_tokens": 4096, **beside.get(name, {}), name: value}


async def _answered(client: Client, path: str, body: dict[str, Any]) -> bool:
    call = client.call("POST", path)
    call.put(orjson.dumps({"model": MODEL} | body))
    answer = await call.answer()
    assert answer.status in (200, 400, 404), (body, answer.body)
    # What is not there is not refused.
    return answer.status != 400 or str(answer.json["error"].get("code")).endswith("not_found")


def listed(heading: str) -> list[str]:
    """Read the places that docs/api.md says are refused under a heading."""
    text = PAGE.read_text(encoding="utf-8").partition("## What the SDKs' types allow and is refused")[2]
    row = re.search(rf"^\*\*{re.escape(heading)}\*\*: (.*?)\.$", text, re.MULTILINE | re.DOTALL)
    assert row is not None, f"docs/api.md has no line for {heading}"
    return re.findall(r"`([^`]+)`", row[1])


Body = Callable[[str, Any], dict[str, Any]]


@pytest.mark.parametrize(
    ("heading", "path", "params", "body"),
    [
        ("Chat completions", "/v1/chat/completions", chat_params.CompletionCreateParamsBase, chat),
        ("Text completions", "/v1/completions", completion_params.CompletionCreateParamsBase, completion),
        ("Responses", "/v1/responses", response_params.ResponseCreateParamsBase, response),
        ("Messages", "/v1/messages", message_params.MessageCreateParamsBase, message),
    ],
)
async def test_what_a_token_engine_cannot_do_is_listed(
    store_url: str, heading: str, path: str, params: type, body: Body
) -> None:
    samples = SAMPLES | ({"input": {}} if heading == "Messages" else {})
    if heading == "Messages":
        del samples["metadata"]
    engine = engine_of(corpus=readable_corpus(), vocabulary=readable_vocabulary(), output_tokens=1)
    refused: list[str] = []
    taken: list[str] = []
    async with gateway_of(store_url, engine) as client:
        for case in cases(params, samples, last=("messages", "input")):
            fine = await _answered(client, path, body(case.parameter, whole(case.value, case.place)))
            (taken if fine else refused).append(case.place)
    found = folded(refused, taken)
    assert len(taken) > 20
    assert found == listed(heading), "as it has to be listed: " + ", ".join(f"`{place}`" for place in found)


def test_embeddings_are_taken_whatever_the_type_allows() -> None:
    def taken(case: Case) -> None:
        embeddings.decode(orjson.dumps({"model": MODEL, "input": "hi", case.parameter: case.value}))

    kinds = cases(openai.types.EmbeddingCreateParams, SAMPLES | {"input": "hi"})
    for case in kinds:
        if case.place != "input[][]":
            taken(case)
    taken(Case("input[][]", "input", [[5]]))


def test_counting_tokens_knows_no_more_than_messages() -> None:
    counted = set(anthropic.types.MessageCountTokensParams.__annotations__)
    assert counted <= set(message_params.MessageCreateParamsBase.__annotations__)
