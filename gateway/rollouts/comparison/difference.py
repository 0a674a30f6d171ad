"""Compare two answers to one request: the stable version's, or an earlier run's, and the candidate's."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Literal

import msgspec
import orjson

from gateway.rollouts.comparison.answer import Answer, Expected, ToolCall
from gateway.rollouts.comparison.similarity import overlap
from gateway.text.schemas.conformance import conforms

#: How the calls of two answers relate. `arguments`: the names are the same; `missing`, `added`: only the baseline, or
#: only the candidate, calls anything.
Calls = Literal["none", "same", "arguments", "names", "missing", "added"]
#: Which side has no answer.
Failed = Literal["", "baseline", "candidate", "both"]
#: What a similarity is of: the texts are equal, share words, or have embeddings in one direction.
Measure = Literal["equal", "tokens", "embeddings"]

#: Calls that are no reason to look.
GOOD_CALLS: Final[frozenset[Calls]] = frozenset({"none", "same"})


class AnswerDifference(msgspec.Struct, frozen=True):
    """How a candidate's answer differs from the baseline's.

    `similarity` is of the texts, from 0 to 1, and 1 for equal ones; `by` says by what. `length_ratio` is the
    candidate's characters, calls included, by the baseline's, one added to both. An answer is valid if its text is
    JSON where that was asked for, its calls are of offered tools with objects as arguments, and both conform to the
    request's schemas, as far as those can be followed. Where a side `failed`,
    nothing else is said.
    """

    failed: Failed = ""
    same: bool = False
    greedy: bool = False
    similarity: float = 0.0
    by: Measure = "tokens"
    calls: Calls = "none"
    length_ratio: float = 0.0
    baseline_finish: str = ""
    candidate_finish: str = ""
    baseline_valid: bool = True
    candidate_valid: bool = True

    @property
    def broken(self) -> bool:
        """Whether the candidate's answer is invalid where the baseline's is valid."""
        return self.baseline_valid and not self.candidate_valid

    def alike(self, similar: float) -> bool:
        """Whether the answers say the same: they are equal, or else their calls are, the candidate's is as valid, and
        texts are as similar as that. Without randomness only equal ones are.
        """
        if self.failed:
            return False
        if self.same or self.greedy:
            return self.same
        return self.similarity >= similar and self.calls in GOOD_CALLS and not self.broken


def compare(
    baseline: Answer | None, candidate: Answer | None, expected: Expected, embedded: float | None = None
) -> AnswerDifference:
    """Compare; None: the side failed. `embedded` is the cosine of the texts' embeddings, where there are some."""
    if baseline is None or candidate is None:
        failed: Failed = "candidate" if baseline is not None else "baseline" if candidate is not None else "both"
        return AnswerDifference(failed=failed, greedy=expected.greedy)
    calls = compare_calls(baseline.calls, candidate.calls)
    one, other = _text_of(baseline), _text_of(candidate)
    similarity: float
    by: Measure
    if one == other:
        similarity, by = 1.0, "equal"
    elif embedded is not None:
        similarity, by = embedded, "embeddings"
    else:
        similarity, by = overlap(one, other), "tokens"
    return AnswerDifference(
        same=one == other and calls in GOOD_CALLS and baseline.finish == candidate.finish,
        greedy=expected.greedy,
        similarity=similarity,
        by=by,
        calls=calls,
        length_ratio=(_length(candidate) + 1) / (_length(baseline) + 1),
        baseline_finish=baseline.finish,
        candidate_finish=candidate.finish,
        baseline_valid=is_valid(baseline, expected),
        candidate_valid=is_valid(candidate, expected),
    )


def compare_calls(baseline: Sequence[ToolCall], candidate: Sequence[ToolCall]) -> Calls:
    """Compare calls by their names and by what their arguments say as JSON; calls beside each other have no order."""
    if not baseline and not candidate:
        return "none"
    if not candidate:
        return "missing"
    if not baseline:
        return "added"
    one, other = sorted(map(_canonical, baseline)), sorted(map(_canonical, candidate))
    if one == other:
        return "same"
    return "arguments" if [name for name, _ in one] == [name for name, _ in other] else "names"


def is_valid(answer: Answer, expected: Expected) -> bool:
    """Whether an answer is what its request asked for, as far as its form goes."""
    for call in answer.calls:
        given = _parsed(call.arguments)
        if call.name not in expected.tools or not isinstance(given, dict):
            return False
        if conforms(expected.tools[call.name], given) is False:
            return False
    # What was refused, or calls tools instead, needs no JSON.
    if not expected.json or answer.calls or answer.refusal:
        return True
    value = _parsed(answer.text)
    return value is not _BROKEN and conforms(expected.schema, value) is not False


_BROKEN: Final = object()


def _text_of(answer: Answer) -> str:
    return answer.text or answer.refusal


def _length(answer: Answer) -> int:
    return len(_text_of(answer)) + sum(len(call.name) + len(call.arguments) for call in answer.calls)


def _parsed(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return _BROKEN


def _canonical(call: ToolCall) -> tuple[str, bytes]:
    """Write a call so that what says the same is the same: members in order, whole numbers without a fraction."""
    value = _parsed(call.arguments)
    if value is not _BROKEN:
        # Arguments that are nested more deeply than is written are compared as text.
        with suppress(orjson.JSONEncodeError, RecursionError):
            return call.name, orjson.dumps(_whole(value), option=orjson.OPT_SORT_KEYS)
    return call.name, call.arguments.encode("utf-8", "surrogatepass")


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in value.items()}
    return value
