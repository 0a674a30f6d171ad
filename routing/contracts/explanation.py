"""Explains a routing decision as one value, rendered by the debug header, the log and `penstock route explain`."""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

#: The size that fits into one header beside all others: servers and proxies accept at least 8 KiB of headers.
BRIEF_CANDIDATES: Final = 16
BRIEF_BYTES: Final = 4096


class Place(msgspec.Struct, frozen=True):
    """The replica that a request was sent to; `prefill` is set where a pair served it."""

    replica: str
    prefill: str | None = None


class Candidate(msgspec.Struct, frozen=True):
    """A replica or pair as the decision saw it.

    `value` is the policy's cost (the least wins) and `parts` are its summands; None: it could not be taken, for the
    reason `excluded`. `cached_tokens` of the prompt are believed to be in its KV cache.
    """

    replica: str
    prefill: str | None = None
    value: float | None = None
    parts: Mapping[str, float] = {}
    cached_tokens: int = 0
    excluded: str = ""


class RouteExplanation(msgspec.Struct, frozen=True):
    """One decision. `replica` is None where none was chosen, and `reason` then says why.

    `cached_tokens` and `expected_ttft_seconds` are the policy's predictions for the chosen replica, the latter None
    where it predicts none. `waiting` requests waited for admission in this worker. `candidates` are in the policy's
    order, the best first and the excluded last; `left_out` of them are not shown. `earlier` lists the places of
    attempts before a failover. `version` is the one that serves the request, where the model's requests go by version.
    """

    request_id: str
    model: str
    policy: str
    prompt_tokens: int
    max_tokens: int
    expected_output_tokens: float
    waiting: int
    reason: str = ""
    replica: str | None = None
    prefill: str | None = None
    cached_tokens: int = 0
    expected_ttft_seconds: float | None = None
    candidates: tuple[Candidate, ...] = ()
    left_out: int = 0
    earlier: tuple[Place, ...] = ()
    version: str = ""


def brief(explanation: RouteExplanation) -> str:
    """Render one line of ASCII JSON, at most BRIEF_BYTES, without unknown members and without the parts of values.

    It shows the best candidates, the chosen one always among them; `left_out` counts the others.
    """
    head = _head(explanation)
    chosen = (explanation.replica, explanation.prefill)
    everyone = explanation.candidates
    shown = list(everyone[:BRIEF_CANDIDATES])
    for candidate in everyone[BRIEF_CANDIDATES:]:
        if (candidate.replica, candidate.prefill) == chosen:
            shown[-1] = candidate
    while True:
        entries = [_entry(candidate) for candidate in shown]
        left_out = explanation.left_out + len(everyone) - len(shown)
        line = json.dumps(
            {**head, "candidates": entries, **({"left_out": left_out} if left_out else {})}, separators=(",", ":")
        )
        if len(line) <= BRIEF_BYTES or not shown:
            return line
        # Drop the worst candidate, unless it is the chosen one.
        last = shown[-1]
        shown.pop(-2 if len(shown) > 1 and (last.replica, last.prefill) == chosen else -1)


def _head(explanation: RouteExplanation) -> dict[str, Any]:
    ttft = explanation.expected_ttft_seconds
    return {
        "policy": explanation.policy,
        "reason": explanation.reason,
        "replica": explanation.replica,
        **({"version": explanation.version} if explanation.version else {}),
        **({"prefill": explanation.prefill} if explanation.prefill else {}),
        "prompt_tokens": explanation.prompt_tokens,
        "cached_tokens": explanation.cached_tokens,
        **({} if ttft is None else {"expected_ttft_seconds": rounded(ttft)}),
        **({"waiting": explanation.waiting} if explanation.waiting else {}),
        **({"earlier": [_place(place) for place in explanation.earlier]} if explanation.earlier else {}),
    }


def _entry(candidate: Candidate) -> dict[str, Any]:
    entry: dict[str, Any] = _place(Place(candidate.replica, candidate.prefill))
    if candidate.value is not None:
        entry["value"] = rounded(candidate.value)
    if candidate.cached_tokens:
        entry["cached_tokens"] = candidate.cached_tokens
    if candidate.excluded:
        entry["excluded"] = candidate.excluded
    return entry


def _place(place: Place) -> dict[str, str]:
    return {"replica": place.replica, **({"prefill": place.prefill} if place.prefill else {})}


def rounded(value: float) -> float:
    """Round to six significant digits."""
    return float(f"{value:.6g}")
