"""A text of a prompt with its place in the body, as filters see it."""

from typing import Final, NamedTuple

#: Member names and types of the APIs and of JSON Schema, which are no text.
WORDS: Final = frozenset(
    (
        *("role", "content", "type", "text", "name", "refusal", "audio", "image_url", "input_audio", "file"),
        *("filename", "tool_calls", "function_call", "function", "functions", "arguments", "id", "tools", "strict"),
        *("custom", "input", "format", "definition", "syntax", "grammar", "json_schema", "json_object", "schema"),
        *("parameters", "description", "properties", "required", "additionalProperties", "items", "enum", "const"),
        *("anyOf", "oneOf", "allOf", "not", "$ref", "$defs", "definitions", "default", "title", "examples", "pattern"),
        *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "nullable", "$schema"),
        *("string", "number", "integer", "boolean", "array", "object", "null", "allowed_tools", "mode", "voice"),
        *("user_location", "approximate", "search_context_size", "reasoning_content", "reasoning", "index"),
        *("annotations", "audio_url", "video_url", "url"),
    )
)


#: The member names and list positions that lead to a text in a body.
TextPath = tuple[str | int, ...]


class PromptText(NamedTuple):
    """One text of a message with that role; what is about the whole conversation has the role `system`.

    `param` is its place in the API's notation, as in `messages[2].content[0].text`, and `path` leads to it in the body.
    """

    role: str
    param: str
    path: TextPath
    text: str
