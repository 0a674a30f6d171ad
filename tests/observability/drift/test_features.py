from hypothesis import given
from hypothesis import strategies as st

from observability.drift.features import BY_NAME, UNKNOWN, length_bin, longest
from observability.record import RequestRecord


def record(**fields: object) -> RequestRecord:
    return RequestRecord("1", "chat", 0.0, 0.0, **fields)  # type: ignore[arg-type]


@given(st.integers(0, 1 << 24))
def test_bins_of_lengths_are_in_order(tokens: int) -> None:
    bin_ = length_bin(tokens)
    assert int(length_bin(tokens + 1)) >= int(bin_)
    assert tokens <= longest(bin_) or tokens > 1 << 21


def test_what_is_counted_of_a_record() -> None:
    of = record(prompt_tokens=600, completion_tokens=0, language="de", tools=3, tenant="a", refused=True, finish="stop")
    bins = {name: feature.bin_of(of) for name, feature in BY_NAME.items()}
    assert bins["language"] == "de"
    assert bins["tools"] == "2"
    assert bins["refusals"] == "yes"
    assert bins["finish"] == "stop"
    assert bins["answer_tokens"] == "0"
    assert bins["tenants"] == BY_NAME["tenants"].bin_of(record(tenant="a"))
    assert BY_NAME["language"].bin_of(record()) == UNKNOWN
