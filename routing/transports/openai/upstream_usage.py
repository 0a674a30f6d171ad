"""Reads token counts and finish reasons from an upstream's answer."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

import msgspec

from protos.token_counts import TokenCounts
from protos.types import Finish, FinishReason
from routing.estimates.text_tokens import text_tokens

T = TypeVar("T")


class Choice(msgspec.Struct, frozen=True):
    """One sequence of an answer, or of a chunk."""

    index: int = 0
    finish_reason: str | None = None
    #: Moonshot's streams tell it here.
    usage: Any = None


class _GroqPart(msgspec.Struct, frozen=True):
    usage: Any = None


class Answer(msgspec.Struct, frozen=True):
    """The members that are read of an answer or a stream's chunk; the others are ignored.

    `usage` is in the provider's own form (routing/transports/openai/usage_forms.py).
    """

    model: str | None = None
    usage: Any = None
    choices: list[Choice] | None = None
    error: msgspec.Raw | None = None
    x_groq: _GroqPart | None = None

    @property
    def told(self) -> Mapping[str, Any] | None:
        """The usage object, wherever it stands."""
        if isinstance(self.usage, dict):
            return self.usage
        if self.x_groq is not None and isinstance(self.x_groq.usage, dict):
            return self.x_groq.usage
        return next((choice.usage for choice in self.choices or () if isinstance(choice.usage, dict)), None)

    @property
    def is_error(self) -> bool:
        """Whether it is an error that came with status 200."""
        return self.error is not None and bytes(self.error).strip() != b"null"


_ANSWER: Final = msgspec.json.Decoder(Answer)
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_USAGE: Final = re.compile(rb'"usage"\s*:\s*(?=\{)')
_JSON: Final = json.JSONDecoder()


def answer_in(text: bytes) -> Answer:
    """Parse an answer or chunk; members of an unexpected form count as absent. Raises ValueError unless an object."""
    try:
        return _ANSWER.decode(text)
    except msgspec.ValidationError:
        pass
    except (msgspec.DecodeError, RecursionError):
        raise ValueError("no JSON") from None
    try:
        members = _MEMBERS.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise ValueError("no object") from None
    return Answer(
        usage=_as(dict[str, Any], members.get("usage")),
        choices=_as(list[Choice], members.get("choices")) or ([] if "choices" in members else None),
        error=members.get("error"),
    )


def _as(kind: type[T], raw: msgspec.Raw | None) -> T | None:
    try:
        return None if raw is None else msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError:
        return None


def usage_in_tail(tail: bytes) -> Mapping[str, Any] | None:
    """Find the last `usage` object in the tail of a JSON text."""
    starts = [match.end() for match in _USAGE.finditer(tail)]
    if not starts:
        return None
    try:
        value, _ = _JSON.raw_decode(tail[starts[-1] :].decode("utf-8", "replace"))
        return cast("Mapping[str, Any]", value)
    except (ValueError, RecursionError):
        return None


def answered_tokens(answer: bytes) -> int:
    """Estimate the tokens of a whole answer without usage by its texts, thoughts and calls."""
    texts: list[str] = []
    _gather(_members_of(answer).get("choices"), texts)
    return text_tokens("\n".join(texts).encode("utf-8", "replace"))


def _members_of(answer: bytes) -> Mapping[str, Any]:
    try:
        found = msgspec.json.decode(answer)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


#: Where the answer's own texts stand: its message, and what that has.
_TEXTS: Final = frozenset(
    (
        *("message", "text", "content", "refusal", "reasoning", "reasoning_content"),
        *("tool_calls", "function_call", "function", "name", "arguments"),
    )
)


def _gather(value: object, texts: list[str]) -> None:
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, list):
        for one in value:
            _gather(one, texts)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name in _TEXTS:
                _gather(one, texts)


def finishes(counts: TokenCounts | None, seen: int, cut: set[int], sequences: int) -> list[Finish]:
    """Return the finish of each sequence; the first one has the whole answer's counts. `cut` reached their limit.

    `seen` is the approximate number of tokens, used where the upstream reports none.
    """
    prompt, cached, completion = 0, 0, seen
    if counts is not None:
        prompt, cached = counts.prompt or 0, counts.cached
        if counts.completion is not None:
            completion = counts.completion
    reasons = [FinishReason.LENGTH if index in cut else FinishReason.STOP for index in range(sequences)]
    first = Finish(reasons[0], prompt, cached, completion)
    return [first, *(Finish(reason, prompt, cached, 0) for reason in reasons[1:])]
