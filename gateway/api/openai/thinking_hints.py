"""Read how servers and providers ask for thoughts, and put it in the chat's own words, which are hints."""

from typing import Any, Literal

import msgspec

from gateway.api.openai.sampling_params import SamplingFields
from gateway.api.server.body_decoder import read_part

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class _Thinking(msgspec.Struct, frozen=True):
    """`thinking` of DeepSeek, GLM and Kimi; other members are hints for caches, or budgets."""

    type: str


class _Reasoning(msgspec.Struct, frozen=True):
    """`reasoning` of OpenRouter; `exclude` asks for answers without thoughts, as `include_reasoning: false` does."""

    effort: Effort | None = None
    enabled: bool | None = None
    exclude: bool | None = None


def take_thinking(fields: SamplingFields, extras: dict[str, Any]) -> SamplingFields:
    """Take the hints out of a chat's parameters; return its fields with them. What the fields say already stands.

    Raises InvalidRequest.
    """
    found: dict[str, Any] = {}
    if "thinking" in extras:
        asked = read_part(extras.pop("thinking"), _Thinking, "thinking")
        found["enable_thinking"] = asked.type != "disabled"
    if "reasoning" in extras:
        wanted = read_part(extras["reasoning"], _Reasoning, "reasoning")
        if wanted.enabled is not None:
            found["enable_thinking"] = wanted.enabled
        if wanted.effort is not None:
            found["reasoning_effort"] = wanted.effort
        del extras["reasoning"]
        if wanted.exclude:
            extras.setdefault("include_reasoning", False)
    found = {name: value for name, value in found.items() if getattr(fields, name) is None}
    return msgspec.structs.replace(fields, **found) if found else fields
