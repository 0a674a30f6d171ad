"""Bodies of the Messages API (Anthropic API reference, Messages).

`cache_control` is accepted everywhere and ignored: replicas cache prompt prefixes by themselves.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gateway.api.openai.sampling_params import MAX_STOP_CHARS, MAX_STOPS
from gateway.config.tenants import END

MAX_MESSAGES = 10_000
#: The API's smallest reasoning budget, in tokens.
LEAST_BUDGET = 1024

_Stop = Annotated[str, Meta(min_length=1, max_length=MAX_STOP_CHARS)]
_Id = Annotated[str, Meta(min_length=1, max_length=256)]


class _Fields(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Base of all bodies; unknown fields are refused."""


class CacheControl(_Fields, frozen=True, kw_only=True):
    """A cache breakpoint: the end of a prefix that will come again."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class _Block(_Fields, frozen=True, kw_only=True, tag_field="type"):
    """Base of all content blocks."""

    cache_control: CacheControl | None = None


class TextBlock(_Block, frozen=True, kw_only=True, tag="text"):
    """Text; its former citations are ignored."""

    text: str
    citations: list[dict[str, Any]] | None = None


class Base64Source(_Fields, frozen=True, kw_only=True, tag_field="type", tag="base64"):
    """Data in the body itself."""

    media_type: Annotated[str, Meta(max_length=64)]
    data: str


class UrlSource(_Fields, frozen=True, kw_only=True, tag_field="type", tag="url"):
    """Data at a URL."""

    url: str


class FileSource(_Fields, frozen=True, kw_only=True, tag_field="type", tag="file"):
    """Data of Anthropic's Files API."""

    file_id: str


class TextSource(_Fields, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """A document's plain text."""

    data: str
    media_type: Literal["text/plain"] = "text/plain"


class ImageBlock(_Block, frozen=True, kw_only=True, tag="image"):
    """An image."""

    source: Base64Source | UrlSource | FileSource
    #: What becomes of images that are too large; an empty object asks for nothing.
    transformations: dict[str, Any] | None = None


class ContentSource(_Fields, frozen=True, kw_only=True, tag_field="type", tag="content"):
    """A document in pieces."""

    content: str | list[TextBlock | ImageBlock]


class Citations(_Fields, frozen=True, kw_only=True):
    """Whether answers cite their sources."""

    enabled: bool | None = None


class DocumentBlock(_Block, frozen=True, kw_only=True, tag="document"):
    """A document."""

    source: Base64Source | TextSource | ContentSource | UrlSource | FileSource
    title: str | None = None
    context: str | None = None
    citations: Citations | None = None


class SearchResultBlock(_Block, frozen=True, kw_only=True, tag="search_result"):
    """A search result."""

    content: list[TextBlock]
    source: str
    title: str
    citations: Citations | None = None


class ThinkingBlock(_Block, frozen=True, kw_only=True, tag="thinking"):
    """Reasoning of an earlier answer; its signature is not checked."""

    thinking: str
    signature: str = ""


class RedactedThinkingBlock(_Block, frozen=True, kw_only=True, tag="redacted_thinking"):
    """Encrypted reasoning that only Anthropic can read."""

    data: str


class DirectCaller(_Fields, frozen=True, kw_only=True):
    """The caller of a tool is the model itself."""

    type: Literal["direct"]


class ToolUseBlock(_Block, frozen=True, kw_only=True, tag="tool_use"):
    """A tool call."""

    id: _Id
    name: _Id
    input: dict[str, Any]
    caller: DirectCaller | None = None
    toolset_name: None = None


class ToolResultBlock(_Block, frozen=True, kw_only=True, tag="tool_result"):
    """The result of a tool call."""

    tool_use_id: _Id
    content: str | list[TextBlock | ImageBlock | DocumentBlock | SearchResultBlock] | None = None
    is_error: bool | None = None
    toolset_name: None = None


Shown = TextBlock | ImageBlock | DocumentBlock | SearchResultBlock
Block = Shown | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock


class Message(_Fields, frozen=True, kw_only=True):
    """One message of a conversation."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class CustomTool(_Fields, frozen=True, kw_only=True):
    """A tool that the client runs itself."""

    name: Annotated[str, Meta(pattern=rf"^[a-zA-Z0-9_-]{{1,128}}{END}")]
    input_schema: dict[str, Any]
    description: str | None = None
    type: Literal["custom"] | None = None
    strict: bool | None = None
    input_examples: list[dict[str, Any]] | None = None
    allowed_callers: list[Literal["direct"]] | None = None
    defer_loading: Literal[False] | None = None
    eager_input_streaming: bool | None = None
    cache_control: CacheControl | None = None


class AutoChoice(_Fields, frozen=True, kw_only=True, tag_field="type", tag="auto"):
    """The model decides."""

    disable_parallel_tool_use: bool | None = None


class AnyChoice(_Fields, frozen=True, kw_only=True, tag_field="type", tag="any"):
    """The model must call a tool."""

    disable_parallel_tool_use: bool | None = None


class ToolChoice(_Fields, frozen=True, kw_only=True, tag_field="type", tag="tool"):
    """The model must call this tool."""

    name: str
    disable_parallel_tool_use: bool | None = None


class NoChoice(_Fields, frozen=True, kw_only=True, tag_field="type", tag="none"):
    """The model may call no tool."""

    disable_parallel_tool_use: bool | None = None


Display = Literal["summarized", "omitted"]


class ThinkingEnabled(_Fields, frozen=True, kw_only=True, tag_field="type", tag="enabled"):
    """The model reasons first."""

    budget_tokens: Annotated[int, Meta(ge=LEAST_BUDGET)]
    display: Display | None = None


class ThinkingAdaptive(_Fields, frozen=True, kw_only=True, tag_field="type", tag="adaptive"):
    """The model decides whether to reason."""

    display: Display | None = None


class ThinkingDisabled(_Fields, frozen=True, kw_only=True, tag_field="type", tag="disabled"):
    """The model does not reason."""


class ThinkingBetweenTools(_Fields, frozen=True, kw_only=True, tag_field="type", tag="between_tools"):
    """The model reasons between calls of tools."""


class JsonFormat(_Fields, frozen=True, kw_only=True):
    """The answer's text is JSON of this schema."""

    type: Literal["json_schema"]
    schema: dict[str, Any]


Thinking = ThinkingEnabled | ThinkingAdaptive | ThinkingDisabled | ThinkingBetweenTools


class ContextEdit(_Fields, frozen=True, kw_only=True):
    """An edit of a long prompt, of those that Anthropic makes. None is made here, which the answer says."""

    type: Literal["clear_tool_uses_20250919", "clear_thinking_20251015"]
    keep: Any = None
    trigger: Any = None
    clear_at_least: Any = None
    clear_tool_inputs: Any = None
    exclude_tools: Any = None


class ContextManagement(_Fields, frozen=True, kw_only=True):
    """Edits of the prompt."""

    edits: list[ContextEdit] | None = None


class OutputConfig(_Fields, frozen=True, kw_only=True):
    """The form of the answer."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: JsonFormat | None = None


class Metadata(_Fields, frozen=True, kw_only=True):
    """Metadata of the request."""

    user_id: Annotated[str, Meta(max_length=512)] | None = None


class PromptBody(_Fields, frozen=True, kw_only=True):
    """The fields that make the prompt, which are all that `count_tokens` has. Tools are decoded one by one."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    messages: Annotated[list[Message], Meta(min_length=1, max_length=MAX_MESSAGES)]
    system: str | list[TextBlock] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: AutoChoice | AnyChoice | ToolChoice | NoChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: JsonFormat | None = None
    cache_control: CacheControl | None = None
    context_management: ContextManagement | None = None
    speed: Literal["standard"] | None = None


class MessagesBody(PromptBody, frozen=True, kw_only=True):
    """The request body."""

    max_tokens: Annotated[int, Meta(ge=1, le=0x7FFF_FFFF)]
    stream: bool | None = None
    stop_sequences: (
        Annotated[list[Annotated[str, Meta(min_length=1, max_length=MAX_STOP_CHARS)]], Meta(max_length=MAX_STOPS)]
        | None
    ) = None
    temperature: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None
    top_p: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None
    top_k: Annotated[int, Meta(ge=0, le=0x7FFF_FFFF)] | None = None
    metadata: Metadata | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
