"""W3C Trace Context, held against what the Recommendation says of each field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observability.record import TraceContext
from observability.tracing.trace_context import context_to_send, parse, received_trace, trace_headers
from tests.observability.tracing.records import PARENT, SPAN, TRACE, record_of, sampled

GOOD = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("value", "flags"),
    [
        (GOOD, 1),
        (GOOD[:-2] + "00", 0),
        # Of flags that are not known here nothing is passed on.
        (GOOD[:-2] + "ff", 1),
        (GOOD[:-2] + "fe", 0),
        # Of later versions, what this one has; more may follow, after a dash.
        ("cc" + GOOD[2:], 1),
        ("cc" + GOOD[2:] + "-what-the-future-will-be-like", 1),
        (f" \t{GOOD} ", 1),
    ],
)
def test_what_is_valid(value: str, flags: int) -> None:
    assert parse(value.encode()) == TraceContext(TRACE, PARENT, flags, "")


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00",
        "ff" + GOOD[2:],
        GOOD + "-",
        GOOD + "-more",
        GOOD + "0",
        "cc" + GOOD[2:] + ".what",
        GOOD.upper(),
        GOOD.replace("0af7", "0Af7"),
        GOOD.replace("0af7", "0ag7"),
        GOOD.replace("-", "_"),
        GOOD[1:],
        GOOD[:-1],
        "00-" + "0" * 32 + "-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01",
        GOOD + "\n",
        GOOD + "," + GOOD,
        "٠٠" + GOOD[2:],
    ],
)
def test_what_is_not(value: str) -> None:
    assert parse(value.encode()) is None


@pytest.mark.parametrize(
    ("states", "kept"),
    [
        (["rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"], "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
        (["foo=1", "bar=2"], "foo=1,bar=2"),
        ([" foo=1 \t, ,bar=2,,"], "foo=1,bar=2"),
        (["tenant@system=a b"], "tenant@system=a b"),
        (["0tenant@system=x,a-*/_=!"], "0tenant@system=x,a-*/_=!"),
        (["foo=1,foo=2"], ""),
        (["foo=1", "foo=1"], ""),
        (["foo"], ""),
        (["foo="], ""),
        (["FOO=1"], ""),
        (["0foo=1"], ""),
        (["foo=1=2"], ""),
        (["foo=b\xe4r"], ""),
        (["foo=1\r\nx: y"], ""),
        (["foo =1"], ""),
        (["a" * 257 + "=1"], ""),
        (["a@" + "b" * 15 + "=1"], ""),
        (["a=" + "b" * 257], ""),
        ([",".join(f"k{i}=1" for i in range(33))], ""),
        ([",".join(f"k{i}=1" for i in range(32))], ",".join(f"k{i}=1" for i in range(32))),
        # Where there is too much of it, long members go first, then the last.
        (["big=" + "b" * 200 + ",".join(["", *(f"k{i}=" + "v" * 96 for i in range(5))])], None),
    ],
)
def test_a_state_is_whole_or_none(states: list[str], kept: str | None) -> None:
    context = parse(GOOD.encode(), [state.encode("latin-1") for state in states])
    assert context is not None
    if kept is None:
        assert context.state == ",".join(f"k{i}=" + "v" * 96 for i in range(5))
    else:
        assert context.state == kept


@given(st.binary(max_size=80), st.lists(st.binary(max_size=40), max_size=3))
def test_nothing_that_comes_breaks_it(parent: bytes, states: list[bytes]) -> None:
    parse(parent, states)
    found = parse(GOOD.encode(), states)
    assert found is not None
    assert found.state.isascii()
    assert found.state.isprintable()


@given(
    st.binary(min_size=16, max_size=16).filter(any),
    st.binary(min_size=8, max_size=8).filter(any),
    st.from_regex(r"[a-z][a-z0-9]{0,8}=[!-+]{1,9}", fullmatch=True) | st.just(""),
)
def test_what_is_sent_is_what_is_received(trace: bytes, span: bytes, state: str) -> None:
    record = record_of(trace=TraceContext(trace, PARENT, 1, state), span_id=span, sampled=True)
    sent = context_to_send(record)
    headers = trace_headers(sent)
    states = [headers["tracestate"].encode()] if state else []
    assert parse(headers["traceparent"].encode(), states) == TraceContext(trace, span, 1, state)
    assert received_trace(headers["traceparent"], headers.get("tracestate", "")) == sent


def test_who_is_next_hears_of_our_span_or_of_the_clients() -> None:
    assert context_to_send(sampled()) == f"00-{TRACE.hex()}-{SPAN.hex()}-01 vendor=1"
    passing = sampled()
    passing.span_id = b""
    assert context_to_send(passing) == f"00-{TRACE.hex()}-{PARENT.hex()}-01 vendor=1"


def test_of_what_is_not_sampled_nothing_is_sent() -> None:
    assert context_to_send(record_of()) == ""
    assert context_to_send(record_of(trace=TraceContext(TRACE, PARENT, 0, ""))) == ""
    assert trace_headers("") == {}


@pytest.mark.parametrize("parent", ["", "nonsense", GOOD[:-2] + "00", "ü" * 55])
def test_what_a_server_does_not_take(parent: str) -> None:
    assert received_trace(parent, "a=1") == ""
