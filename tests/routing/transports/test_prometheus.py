"""Prometheus' text format as engines write it, and texts that are none."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.transports.prometheus import samples

NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,20}", fullmatch=True)
LABELS = st.dictionaries(st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,10}", fullmatch=True), st.text(), max_size=4)


def written(name: str, labels: dict[str, str], value: float) -> str:
    def escaped(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    inside = ",".join(f'{label}="{escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{inside}}} {value!r}" if labels else f"{name} {value!r}"


@given(st.lists(st.tuples(NAMES, LABELS, st.floats(allow_nan=False))))
def test_what_is_written_is_read(metrics: list[tuple[str, dict[str, str], float]]) -> None:
    text = "\n".join(["# HELP a b", "# TYPE a gauge", "", *(written(*metric) for metric in metrics), "# EOF"])
    assert [(name, dict(labels), value) for name, labels, value in samples(text)] == metrics


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    list(samples(text))


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("up 1", 1.0),
        ("  up\t1 1700000000000 ", 1.0),
        ("up 1\r", 1.0),
        ("up +Inf", math.inf),
        ("up{} 2.5e3", 2500.0),
        ('up{a="x",} 1', 1.0),
        ('up{a="}"}1', 1.0),
        ('up{ a = "x" , b = "y" } 1 # {trace="z"} 0.5', 1.0),
    ],
)
def test_the_ways_to_write_a_sample(line: str, value: float) -> None:
    assert [(name, found) for name, _, found in samples(line)] == [("up", value)]


def test_a_value_that_is_no_number_is_one_to_prometheus() -> None:
    ((_, _, value),) = samples("up NaN")
    assert math.isnan(value)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "# up 1",
        "up",
        "up ",
        "up one",
        "up 1_000",
        "up 1 2 3",
        "1up 1",
        "up{",
        'up{a="x" 1',
        "up{a=x} 1",
        'up{a="x} 1',
        'up{1="x"} 1',
        'up{a="x"b="y"} 1',
        "<html><body>Not Found</body></html>",
        '{"detail": "Not Found"}',
    ],
)
def test_what_is_no_sample_is_left_out(line: str) -> None:
    assert list(samples(f"{line}\nok 1")) == [("ok", {}, 1.0)]
