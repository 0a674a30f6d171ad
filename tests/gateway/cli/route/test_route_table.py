import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli.route.route_table import explanation_lines
from routing.contracts.explanation import Candidate, RouteExplanation

PARTS = ("wait", "compute", "prefill_steps_per_gpu", "room", "late")
CANDIDATES = st.builds(
    Candidate,
    replica=st.text("abc/0", min_size=1, max_size=20),
    prefill=st.none() | st.just("p/0"),
    value=st.none() | st.floats(-1e9, 1e9),
    parts=st.dictionaries(st.sampled_from(PARTS), st.floats(0, 1e9)),
    cached_tokens=st.integers(0, 100_000),
    excluded=st.sampled_from(["", "draining", "no room in its KV cache"]),
)


def told(*candidates: Candidate, **fields: object) -> RouteExplanation:
    fixed: dict[str, object] = {
        "request_id": "req_1",
        "model": "mixtral-8x7b",
        "policy": "auto",
        "prompt_tokens": 1812,
        "max_tokens": 31000,
        "expected_output_tokens": 128.4,
        "waiting": 0,
        "reason": "least predicted cost",
        "replica": "narrow/0",
        "cached_tokens": 512,
        "candidates": candidates,
    }
    return RouteExplanation(**(fixed | fields))  # type: ignore[arg-type]


def parts(number: int) -> dict[str, float]:
    return {
        "wait": 0.0123 * number,
        "compute": 0.2,
        "crowding": 0.004 * number**2,
        "decode": 1.2345,
        "interference": number / 3,
        "room": 0.0,
        "late": 0.0,
    }


SOLO = [Candidate(f"narrow/{number}", None, 0.5 + number, parts(number), 512 * (not number)) for number in range(3)]
PAIR = Candidate("decode-pool/0", "prefill-pool/1", 1012.25, parts(7))
OUT = [Candidate(f"wide/{number}", excluded="no room in its KV cache") for number in range(12)]

WIDE = """\
model        mixtral-8x7b
policy       auto
goes to      narrow/0
because      least predicted cost
prompt       1,812 tokens, 512 believed to be cached there
answer       128 tokens expected, 31,000 at most
first token  expected after 0.213 s
queue        3 wait for a turn in this worker

   #  REPLICA        PREFILL            VALUE  CACHED     WAIT  COMPUTE  CROWDING  DECODE  INTERFERENCE
>  1  narrow/0       -                   0.50     512        0   0.2000         0   1.234             0
   2  narrow/1       -                   1.50       0  0.01230   0.2000    0.0040   1.234         0.333
   3  narrow/2       -                   2.50       0  0.02460   0.2000    0.0160   1.234         0.667
   4  decode-pool/0  prefill-pool/1  1,012.25       0  0.08610   0.2000    0.1960   1.234         2.333
0 for all: room, late

could not be taken:
  draining: x/1
  no room in its KV cache: wide/0, wide/1, wide/2, wide/3, wide/4, wide/5, wide/6, wide/7, wide/8, wide/9, wide/10,
    wide/11"""

NARROW = """\
   #  REPLICA        PREFILL            VALUE  CACHED     WAIT  COMPUTE
>  1  narrow/0       -                   0.50     512        0   0.2000
   2  narrow/1       -                   1.50       0  0.01230   0.2000
   3  narrow/2       -                   2.50       0  0.02460   0.2000
   4  decode-pool/0  prefill-pool/1  1,012.25       0  0.08610   0.2000

   #  REPLICA        PREFILL         CROWDING  DECODE  INTERFERENCE
>  1  narrow/0       -                      0   1.234             0
   2  narrow/1       -                 0.0040   1.234         0.333
   3  narrow/2       -                 0.0160   1.234         0.667
   4  decode-pool/0  prefill-pool/1    0.1960   1.234         2.333
0 for all: room, late
"""


def test_a_wide_terminal() -> None:
    explanation = told(*SOLO, PAIR, *OUT, Candidate("x/1", excluded="draining"), waiting=3, expected_ttft_seconds=0.213)
    assert "\n".join(explanation_lines(explanation, 120)) == WIDE


def test_a_narrow_terminal() -> None:
    lines = "\n".join(explanation_lines(told(*SOLO, PAIR, *OUT), 80))
    assert NARROW in lines
    assert max(map(len, lines.splitlines())) <= 80


def test_a_pair_is_chosen() -> None:
    lines = list(explanation_lines(told(PAIR, *SOLO, replica="decode-pool/0", prefill="prefill-pool/1"), 120))
    assert lines[2] == "goes to      prefill-pool/1 then decode-pool/0"
    assert [line.split()[2] for line in lines if line.startswith(">")] == ["decode-pool/0"]


def test_without_pairs_parts_or_a_prediction() -> None:
    lines = list(explanation_lines(told(Candidate("narrow/0", value=0.0), Candidate("narrow/1", value=1.0)), 80))
    assert lines[-3:] == ["   #  REPLICA   VALUE", ">  1  narrow/0      0", "   2  narrow/1      1"]
    assert not any(line.startswith(("first token", "queue")) for line in lines)


def test_nowhere() -> None:
    lines = list(explanation_lines(told(*OUT[:2], replica=None, reason="no replica has room"), 80))
    assert lines[2:4] == ["goes to      nowhere now", "because      no replica has room"]
    assert lines[-2:] == ["could not be taken:", "  no room in its KV cache: wide/0, wide/1"]


def test_long_names_of_parts_stand_on_several_lines() -> None:
    measured = {"tokens_to_compute": 12000.0, "prefill_steps_per_gpu": 1 / 3, "kv_use": 0.5}
    lines = list(explanation_lines(told(Candidate("narrow/0", value=12000.0, parts=measured)), 80))
    assert lines[-4:] == [
        "                         TOKENS  PREFILL",
        "                             TO    STEPS",
        "   #  REPLICA    VALUE  COMPUTE  PER GPU  KV USE",
        ">  1  narrow/0  12,000   12,000   0.3333  0.5000",
    ]


@given(st.lists(CANDIDATES, max_size=12), st.integers(80, 200))
def test_it_fits_and_shows_every_candidate(candidates: list[Candidate], width: int) -> None:
    lines = list(explanation_lines(told(*candidates), width))
    assert max(map(len, lines)) <= width
    for candidate in candidates:
        assert any(candidate.replica in line for line in lines)
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize(("value", "shown"), [(123456.7, "123,457"), (99.987, "99.99"), (1e-9, "0.000000"), (0.0, "0")])
def test_numbers_have_four_digits(value: float, shown: str) -> None:
    lines = list(explanation_lines(told(Candidate("narrow/0", value=value)), 80))
    assert lines[-1].split()[-1] == shown
