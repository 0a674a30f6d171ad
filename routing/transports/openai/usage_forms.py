"""Pure: the forms in which providers report usage, read into one.

What differs: whether the input contains what was read from and written to a cache, whether the output contains
thoughts, and the names. Where a form is used both ways (thoughts beside or within `completion_tokens`), the reported
total decides.

Sources are the providers' API references: OpenAI and Azure `CompletionUsage`, `ResponseUsage`; Anthropic "Prompt
caching"; Gemini `UsageMetadata`; Bedrock `TokenUsage`, `CacheDetail`; Cohere v2 `Usage`; Mistral `UsageInfo`; DeepSeek
"Context caching"; the chats of Moonshot, Groq, Together, Fireworks and Zhipu; xAI "Consumption and rate limits" (its
thoughts are beside `completion_tokens` and within `total_tokens`); OpenRouter "Usage accounting"; Alibaba "Context
cache".
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from protos.token_counts import TokenCounts

#: Impossible counts are rejected, since tenants are billed by them.
_MOST: Final = 0x7FFF_FFFF
_Members = Mapping[str, Any]
_NO_MEMBERS: Final[_Members] = {}

_PROMPT: Final = ("prompt_tokens", "input_tokens")
_COMPLETION: Final = ("completion_tokens", "output_tokens")
#: Details of input and output; the last is the name in transcriptions and realtime sessions.
_INPUT_DETAILS: Final = ("prompt_tokens_details", "input_tokens_details", "input_token_details")
_OUTPUT_DETAILS: Final = ("completion_tokens_details", "output_tokens_details", "output_token_details")
#: Read from a cache: OpenAI's, Moonshot's and Together's; DeepSeek's; vLLM's kin; Anthropic's behind other gateways.
_CACHED: Final = ("cached_tokens", "prompt_cache_hit_tokens", "num_cached_tokens", "cache_read_input_tokens")
#: Written to a cache: OpenAI's and OpenRouter's; Alibaba's and Anthropic's; LiteLLM's.
_WRITTEN: Final = ("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens")
_REASONING: Final = ("reasoning_tokens", "thinking_tokens")


class _Impossible(ValueError):
    """A member that should be a count is none."""


def counts_of(usage: object) -> TokenCounts | None:
    """Read a provider's usage object; None where it has no counts, or impossible ones."""
    if not isinstance(usage, Mapping):
        return None
    try:
        if "promptTokenCount" in usage or "totalTokenCount" in usage:
            return _gemini(usage)
        if "inputTokens" in usage or "outputTokens" in usage:
            return _bedrock(usage)
        billed = usage.get("billed_units") or usage.get("tokens")
        if isinstance(billed, Mapping):
            return _cohere(usage, billed)
        if "input_tokens" in usage and _has(usage, ("cache_read_input_tokens", "cache_creation_input_tokens")):
            return _anthropic(usage)
        return _openai(usage)
    except _Impossible:
        return None


def later(known: _Members | None, told: _Members) -> _Members:
    """Add what a stream tells later to what it told before: its counts are running totals, and nulls say nothing."""
    if known is None:
        return told
    return {**known, **{name: value for name, value in told.items() if value is not None}}


def _openai(usage: _Members) -> TokenCounts | None:
    given, made = _details(usage, _INPUT_DETAILS), _details(usage, _OUTPUT_DETAILS)
    prompt, completion = _first(usage, _PROMPT), _first(usage, _COMPLETION)
    total = _count(usage, "total_tokens")
    if prompt is None:
        missed = _count(usage, "prompt_cache_miss_tokens")
        if missed is not None:
            prompt = missed + (_count(usage, "prompt_cache_hit_tokens") or 0)
        elif total is not None and total >= (completion or 0):
            prompt = total - (completion or 0)
    if completion is None and prompt is not None and total is not None:
        completion = max(0, total - prompt)
    cached = max(_largest(given, _CACHED), _largest(usage, _CACHED))
    long = max(_long(given), _long(usage))
    written = max(_largest(given, _WRITTEN), _largest(usage, _WRITTEN), long)
    reasoning = max(_largest(made, _REASONING), _largest(usage, _REASONING))
    if prompt is not None and completion is not None:
        within, beside = _split(prompt, completion, total, (cached, written, reasoning))
        prompt, completion = prompt + within, completion + beside
    heard = (_count(given, "audio_tokens") or 0) - _largest(_details(given, ("cached_tokens_details",)), _AUDIO)
    return _bounded(prompt, completion, cached, written, long, reasoning, heard, _count(made, "audio_tokens") or 0)


_AUDIO: Final = ("audio_tokens",)


def _split(prompt: int, completion: int, total: int | None, parts: tuple[int, int, int]) -> tuple[int, int]:
    """Say how much of the prompt and of the answer is counted beside the two, by the total.

    `parts` are the tokens read from a cache, written to one, and thought. An excess that none of them explains was
    thought: Gemini's OpenAI-compatible API tells of thoughts by the total alone.
    """
    cached, written, reasoning = parts
    if total is None:
        return 0, reasoning if reasoning > completion else 0
    excess = total - prompt - completion
    if excess <= 0:
        return 0, 0
    for thought in (reasoning, 0):
        for stored in (0, cached + written, cached, written):
            if thought + stored == excess:
                return stored, thought
    return 0, excess


def _anthropic(usage: _Members) -> TokenCounts | None:
    """Input contains neither what was read from the cache nor what was written to it."""
    cached, long = _count(usage, "cache_read_input_tokens") or 0, _long(usage)
    written = max(_count(usage, "cache_creation_input_tokens") or 0, long)
    given, made = _count(usage, "input_tokens"), _count(usage, "output_tokens")
    prompt = None if given is None else given + cached + written
    thought = _largest(_details(usage, _OUTPUT_DETAILS), _REASONING)
    return _bounded(prompt, made, cached, written, long, thought)


def _bedrock(usage: _Members) -> TokenCounts | None:
    """As Anthropic's, in other names; writes with their lifetimes are a list."""
    cached, written = _count(usage, "cacheReadInputTokens") or 0, _count(usage, "cacheWriteInputTokens") or 0
    long = sum(_count(one, "inputTokens") or 0 for one in _list(usage, "cacheDetails") if one.get("ttl") == "1h")
    given, written = _count(usage, "inputTokens"), max(written, long)
    prompt = None if given is None else given + cached + written
    return _bounded(prompt, _count(usage, "outputTokens"), cached, written, long)


def _gemini(usage: _Members) -> TokenCounts | None:
    """Input contains what was cached, but not tools' results; output contains no thoughts. Zeros are left out."""
    given, total = _count(usage, "promptTokenCount"), _count(usage, "totalTokenCount")
    shown, thought = _count(usage, "candidatesTokenCount"), _count(usage, "thoughtsTokenCount") or 0
    prompt = (given or 0) + (_count(usage, "toolUsePromptTokenCount") or 0)
    completion = None
    if shown is not None or thought:
        completion = (shown or 0) + thought
    elif total is not None:
        completion = max(0, total - prompt)
    heard = _audio(usage, "promptTokensDetails") + _audio(usage, "toolUsePromptTokensDetails")
    heard -= _audio(usage, "cacheTokensDetails")
    cached, said = _count(usage, "cachedContentTokenCount") or 0, _audio(usage, "candidatesTokensDetails")
    return _bounded(prompt, completion, cached, reasoning=thought, audio_input=heard, audio_output=said)


def _cohere(usage: _Members, billed: _Members) -> TokenCounts | None:
    """Read the billed units, which leave out the preamble that Cohere adds to the prompt."""
    cached = _count(usage, "cached_tokens") or 0
    return _bounded(_count(billed, "input_tokens"), _count(billed, "output_tokens"), cached)


def _bounded(
    prompt: int | None,
    completion: int | None,
    cached: int,
    written: int = 0,
    long: int = 0,
    reasoning: int = 0,
    audio_input: int = 0,
    audio_output: int = 0,
) -> TokenCounts | None:
    """Hold parts to what they are parts of; `written` includes what was written for `long`."""
    if prompt is None and completion is None:
        return None
    room, answer = prompt or 0, completion or 0
    cached = min(cached, room)
    long = min(long, room - cached)
    short = min(written - long, room - cached - long) if written > long else 0
    heard = min(max(0, audio_input), room - cached - long - short)
    said = min(audio_output, answer)
    return TokenCounts(prompt, completion, cached, short, long, min(reasoning, answer), heard, said)


def _count(members: _Members, name: str) -> int | None:
    """Give a count; None where there is none. Raises _Impossible."""
    value = members.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1 or not 0 <= value <= _MOST:
        raise _Impossible(name)
    return int(value)


def _first(members: _Members, names: tuple[str, ...]) -> int | None:
    for name in names:
        value = _count(members, name)
        if value is not None:
            return value
    return None


def _largest(members: _Members, names: tuple[str, ...]) -> int:
    """Give the largest of counts that say the same thing in several names."""
    return max([_count(members, name) or 0 for name in names])


def _has(members: _Members, names: tuple[str, ...]) -> bool:
    return any(members.get(name) is not None for name in names)


def _details(members: _Members, names: tuple[str, ...]) -> _Members:
    for name in names:
        value = members.get(name)
        if isinstance(value, Mapping):
            return value
    return _NO_MEMBERS


def _long(members: _Members) -> int:
    """Give the tokens written to a cache for an hour."""
    return _count(_details(members, ("cache_creation",)), "ephemeral_1h_input_tokens") or 0


def _list(members: _Members, name: str) -> Iterator[_Members]:
    value = members.get(name)
    return (one for one in (value if isinstance(value, list) else ()) if isinstance(one, Mapping))


def _audio(members: _Members, name: str) -> int:
    """Add up the tokens of sound in a list of modalities."""
    return sum(_count(one, "tokenCount") or 0 for one in _list(members, name) if one.get("modality") == "AUDIO")
