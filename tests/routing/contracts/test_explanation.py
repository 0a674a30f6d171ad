import json
import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from routing.contracts.explanation import (
    BRIEF_BYTES,
    BRIEF_CANDIDATES,
    Candidate,
    Place,
    RouteExplanation,
    brief,
    rounded,
)

NAMES = st.text('abcé/☃\n"0', min_size=1, max_size=55)
CANDIDATES = st.builds(
    Candidate,
    replica=NAMES,
    prefill=st.none() | NAMES,
    value=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    parts=st.just({"wait": 0.1}),
    cached_tokens=st.integers(0, 100_000),
    excluded=st.sampled_from(["", "", "no room in its KV cache"]),
)


def explained(candidates: tuple[Candidate, ...], chosen: Candidate | None, **fields: object) -> RouteExplanation:
    return RouteExplanation(
        request_id="req_1",
        model="m",
        policy="auto",
        prompt_tokens=100,
        max_tokens=10,
        expected_output_tokens=8.0,
        waiting=0,
        reason="least predicted cost",
        replica=chosen.replica if chosen else None,
        prefill=chosen.prefill if chosen else None,
        candidates=candidates,
        **fields,  # type: ignore[arg-type]
    )


def test_a_brief_one_says_what_is_known_and_no_more() -> None:
    near, far = Candidate("d/0", "p/0", 0.123456789, {"wait": 0.1}, 512), Candidate("b/1", excluded="draining")
    told = explained((near, far), near, cached_tokens=512, expected_ttft_seconds=0.21)
    assert json.loads(brief(told)) == {
        "policy": "auto",
        "reason": "least predicted cost",
        "replica": "d/0",
        "prefill": "p/0",
        "prompt_tokens": 100,
        "cached_tokens": 512,
        "expected_ttft_seconds": 0.21,
        "candidates": [
            {"replica": "d/0", "prefill": "p/0", "value": 0.123457, "cached_tokens": 512},
            {"replica": "b/1", "excluded": "draining"},
        ],
    }


def test_a_brief_one_says_where_the_request_was_before() -> None:
    told = explained((), None, earlier=(Place("a/0"), Place("d/0", "p/0")))
    said = json.loads(brief(told))
    assert said["earlier"] == [{"replica": "a/0"}, {"replica": "d/0", "prefill": "p/0"}]
    assert said["replica"] is None
    assert json.loads(brief(msgspec.structs.replace(told, waiting=3)))["waiting"] == 3


@given(st.lists(CANDIDATES, max_size=40), st.integers(0, 39))
def test_a_brief_one_fits_a_header_with_the_chosen_one_in_it(candidates: list[Candidate], place: int) -> None:
    chosen = candidates[place] if place < len(candidates) else None
    line = brief(explained(tuple(candidates), chosen))
    assert len(line) <= BRIEF_BYTES
    assert line.isascii()
    assert line.isprintable()
    said = json.loads(line)
    assert len(said["candidates"]) <= BRIEF_CANDIDATES
    assert len(said["candidates"]) + said.get("left_out", 0) == len(candidates)
    if chosen is not None:
        assert (chosen.replica, chosen.prefill) in {(c["replica"], c.get("prefill")) for c in said["candidates"]}


def test_the_best_are_shown() -> None:
    candidates = tuple(Candidate(f"r/{number}", value=float(number)) for number in range(256))
    said = json.loads(brief(explained(candidates, candidates[200])))
    assert [c["replica"] for c in said["candidates"]] == [f"r/{number}" for number in range(15)] + ["r/200"]
    assert said["left_out"] == 240


def test_rounding() -> None:
    assert rounded(1 / 3) == 0.333333
    assert rounded(123456.7) == 123457.0
    assert math.copysign(1, rounded(-1e-12)) == -1
