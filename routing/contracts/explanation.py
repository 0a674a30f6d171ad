"""Why a request goes where it goes: one value, which the debug header, the log and `penstock route explain` render."""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

#: What fits into a header beside all others: servers and proxies take 8 KiB of them and more.
BRIEF_CANDIDATES: Final = 16
BRIEF_BYTES: Final = 4096


class Place(msgspec.Struct, frozen=True):
    """Where a request was sent: to a replica, after `prefill` where a pair served it."""

    replica: str
    prefill: str | None = None


class Candidate(msgspec.Struct, frozen=True):
    """A replica or pair as the decision saw it.

    `value` is the policy's own measure, of which the least wins, and `parts` is what it is made of; None and
    `excluded` tell that, and why, it could not be taken. `cached_tokens` of the prompt are believed to be held there.
    """

    replica: str
    prefill: str | None = None
    value: float | None = None
    parts: Mapping[str, float] = {}
    cached_tokens: int = 0
    excluded: str = ""


class RouteExplanation(msgspec.Struct, frozen=True):
    """One decision. `replica` is None where none was taken, and `reason` then says why not.

    `cached_tokens` and `expected_ttft_seconds` are what the policy predicts of the chosen one, the latter None where
    it has no idea of it. `waiting` are the requests that waited for a turn in this worker. `candidates` are in the
    policy's order, the best first and the excluded last; `left_out` of them are not shown. `earlier` is where the
    request was sent before, when it had to go on elsewhere.
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


def brief(explanation: RouteExplanation) -> str:
    """One line of JSON in ASCII, at most BRIEF_BYTES: what is not known is left out, and so are the parts of values.

    The candidates are the best ones, with the chosen one among them, and `left_out` says how many there are besides.
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
        # The worst goes, unless it is the chosen one.
        last = shown[-1]
        shown.pop(-2 if len(shown) > 1 and (last.replica, last.prefill) == chosen else -1)


def _head(explanation: RouteExplanation) -> dict[str, Any]:
    ttft = explanation.expected_ttft_seconds
    return {
        "policy": explanation.policy,
        "reason": explanation.reason,
        "replica": explanation.replica,
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
    """To six significant digits."""
    return float(f"{value:.6g}")
