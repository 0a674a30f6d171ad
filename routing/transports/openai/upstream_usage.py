"""Reads token counts and finish reasons from an upstream's answer."""

import json
import re
from typing import Annotated, Final, TypeVar

import msgspec

from protos.types import Finish, FinishReason

T = TypeVar("T")
#: A count of tokens; impossible values are rejected, since tenants are billed by it.
_Count = Annotated[int, msgspec.Meta(ge=0, le=0x7FFF_FFFF)]


class _Details(msgspec.Struct, frozen=True):
    cached_tokens: _Count | None = None
    reasoning_tokens: _Count | None = None


class Usage(msgspec.Struct, frozen=True):
    """The API's `usage` object. Engines omit what they do not count."""

    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt that were cached."""
        details = self.prompt_tokens_details
        return min(details.cached_tokens or 0, self.prompt_tokens or 0) if details is not None else 0

    @property
    def reasoning_tokens(self) -> int:
        """Reasoning tokens of the answer."""
        details = self.completion_tokens_details
        return min(details.reasoning_tokens or 0, self.completion_tokens or 0) if details is not None else 0


class Choice(msgspec.Struct, frozen=True):
    """One sequence of an answer, or of a chunk."""

    index: int = 0
    finish_reason: str | None = None


class Answer(msgspec.Struct, frozen=True):
    """The members that are read of an answer or a stream's chunk; the others are ignored."""

    model: str | None = None
    usage: Usage | None = None
    choices: list[Choice] | None = None
    error: msgspec.Raw | None = None

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
        usage=_as(Usage, members.get("usage")),
        choices=_as(list[Choice], members.get("choices")) or ([] if "choices" in members else None),
        error=members.get("error"),
    )


def _as(kind: type[T], raw: msgspec.Raw | None) -> T | None:
    try:
        return None if raw is None else msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError:
        return None


def usage_in_tail(tail: bytes) -> Usage | None:
    """Parse the last `usage` object in the tail of a JSON text."""
    starts = [match.end() for match in _USAGE.finditer(tail)]
    if not starts:
        return None
    try:
        value, _ = _JSON.raw_decode(tail[starts[-1] :].decode("utf-8", "replace"))
        return msgspec.convert(value, Usage)
    except (ValueError, RecursionError, msgspec.ValidationError):
        return None


def finishes(usage: Usage | None, seen: int, cut: set[int], sequences: int) -> list[Finish]:
    """Return the finish of each sequence; the first one has the whole answer's counts. `cut` reached their limit.

    `seen` is the approximate number of tokens, used where the upstream reports none.
    """
    prompt = completion = cached = 0
    if usage is not None:
        prompt, cached, completion = usage.prompt_tokens or 0, usage.cached_tokens, usage.completion_tokens or 0
    if usage is None or usage.completion_tokens is None:
        completion = seen
    reasons = [FinishReason.LENGTH if index in cut else FinishReason.STOP for index in range(sequences)]
    first = Finish(reasons[0], prompt, cached, completion)
    return [first, *(Finish(reason, prompt, cached, 0) for reason in reasons[1:])]
