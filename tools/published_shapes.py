"""Write the shapes of OpenAI's and Anthropic's answers, from their own clients, for `/openapi.json`.

`python -m tools.published_shapes`, after a change of the versions of `openai` or `anthropic`.
"""

import json
from pathlib import Path
from typing import Any, Final, Literal

import anthropic.types
import openai.types
import openai.types.chat
import openai.types.conversations
import openai.types.responses
from pydantic import TypeAdapter

FILE: Final = Path(__file__).parent.parent / "gateway" / "api" / "openapi" / "published_shapes.json"
_ANSWERS: Final[dict[str, Any]] = {
    "openai.ChatCompletion": openai.types.chat.ChatCompletion,
    "openai.ChatCompletionChunk": openai.types.chat.ChatCompletionChunk,
    "openai.Completion": openai.types.Completion,
    "openai.CreateEmbeddingResponse": openai.types.CreateEmbeddingResponse,
    "openai.Model": openai.types.Model,
    "openai.ModerationCreateResponse": openai.types.ModerationCreateResponse,
    "openai.FileObject": openai.types.FileObject,
    "openai.Batch": openai.types.Batch,
    "openai.Response": openai.types.responses.Response,
    "openai.ResponseStreamEvent": openai.types.responses.ResponseStreamEvent,
    "openai.ResponseItem": openai.types.responses.ResponseItem,
    "openai.InputTokenCountResponse": openai.types.responses.InputTokenCountResponse,
    "openai.CompactedResponse": openai.types.responses.CompactedResponse,
    "openai.Conversation": openai.types.conversations.Conversation,
    "openai.ConversationItem": openai.types.conversations.ConversationItem,
    "anthropic.Message": anthropic.types.Message,
    "anthropic.RawMessageStreamEvent": anthropic.types.RawMessageStreamEvent,
    "anthropic.MessageTokensCount": anthropic.types.MessageTokensCount,
}
_LEFT_OUT: Final = ("title", "description", "default", "discriminator")
_TEXT: Final = {"type": "string"}
_OPTIONAL_TEXT: Final = {"type": ["string", "null"]}
_IDS: Final = {"type": ["array", "null"], "items": {"type": "integer"}}
_SCORES: Final = {"type": "array", "items": {"type": ["object", "null"]}}
_OF_PROMPT: Final = {"prompt_token_ids": _IDS, "prompt_logprobs": _SCORES}
#: Fields and values beyond the published shapes, as other servers answer.
_ADDED: Final[dict[str, dict[str, Any]]] = {
    "openai.ChatCompletion": _OF_PROMPT,
    "openai.ChatCompletionChunk": {"prompt_token_ids": _IDS},
    "openai.ChatCompletionMessage": {"reasoning_content": _OPTIONAL_TEXT},
    # Its text says that a user's messages are there.
    "openai.CompactedResponse": {
        "output": {"type": "array", "items": {"$ref": "#/components/schemas/openai.ResponseItem"}}
    },
    "openai.CompletionChoice": {"token_ids": _IDS, **_OF_PROMPT},
    "openai.openai__types__chat__chat_completion__Choice": {"token_ids": _IDS},
    "openai.openai__types__chat__chat_completion_chunk__Choice": {"token_ids": _IDS},
    "openai.ChoiceDelta": {"reasoning_content": _OPTIONAL_TEXT},
    "openai.Embedding": {"embedding": {"anyOf": [{"type": "array", "items": {"type": "number"}}, _TEXT]}},
    "openai.Model": {"max_model_len": {"type": "integer"}, "parent": _TEXT},
}
#: Events of Messages that the clients skip or raise, and have no type for.
_UNTYPED_EVENTS: Final = {"type": "object", "properties": {"type": {"enum": ["ping", "error"]}}, "required": ["type"]}


def shapes() -> dict[str, Any]:
    """Return JSON Schemas by their names in the document, without their authors' prose."""
    found: dict[str, Any] = {}
    for owner in ("openai", "anthropic"):
        inputs: list[tuple[str, Literal["validation"], TypeAdapter[Any]]] = [
            (name, "validation", TypeAdapter(kind)) for name, kind in _ANSWERS.items() if name.startswith(f"{owner}.")
        ]
        made, rest = TypeAdapter.json_schemas(inputs, ref_template=f"#/components/schemas/{owner}.{{model}}")
        found |= {f"{owner}.{name}": _bare(schema) for name, schema in rest["$defs"].items()}
        # A model is among the definitions; a union is not.
        found |= {name: _bare(schema) for (name, _), schema in made.items() if name not in found}
    for name, properties in _ADDED.items():
        found[name]["properties"] |= properties
    found["anthropic.RawMessageStreamEvent"]["anyOf"].append(_UNTYPED_EVENTS)
    return dict(sorted(found.items()))


def _bare(schema: Any) -> Any:
    """Remove descriptions, and parts that do not describe an answer."""
    if isinstance(schema, list):
        return [_bare(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    bare = {}
    for name, value in schema.items():
        if name == "properties":
            bare[name] = {key: _bare(each) for key, each in value.items()}
        elif name not in _LEFT_OUT and (name, value) != ("additionalProperties", True):
            bare[name] = _bare(value)
    return bare


def file_text() -> str:
    """Return the file's text: one shape a line."""
    lines = (f"{json.dumps(name)}: {json.dumps(shape)}" for name, shape in shapes().items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(file_text())
