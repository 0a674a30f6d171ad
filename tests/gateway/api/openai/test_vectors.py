"""Embeddings between their two forms."""

import base64
import math
import struct
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.openai.vectors import VectorError, converted

NUMBERS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=40)


def raw_base64(numbers: list[float]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()))


@given(NUMBERS)
def test_each_form_becomes_the_other_and_stays_itself(numbers: list[float]) -> None:
    as_json, as_base64 = msgspec.Raw(msgspec.json.encode(numbers)), raw_base64(numbers)
    assert converted(as_json, "float") == (as_json, len(numbers))
    assert converted(as_base64, "base64") == (as_base64, len(numbers))
    assert converted(as_json, "base64") == (as_base64, len(numbers))
    found, count = converted(as_base64, "float")
    assert (msgspec.json.decode(found), count) == (numbers, len(numbers))


@given(st.binary(max_size=60), st.sampled_from(["float", "base64"]))
def test_any_bytes_are_a_vector_of_finite_numbers_or_refused(data: bytes, form: Literal["float", "base64"]) -> None:
    raw = msgspec.Raw(msgspec.json.encode(base64.b64encode(data).decode()))
    try:
        found, count = converted(raw, form)
    except VectorError:
        return
    assert count == len(data) // 4
    if form == "float":
        assert all(math.isfinite(number) for number in msgspec.json.decode(found))


@pytest.mark.parametrize(
    "raw",
    ["null", "5", "{}", "true", "[]", '""', "[1,null]", '["1"]', "[[1]]", "[1e39]", "[1e400]", '"%%%%"', '"AAA"', "[1"],
)
@pytest.mark.parametrize("form", ["float", "base64"])
def test_what_is_no_vector(raw: str, form: Any) -> None:
    with pytest.raises(VectorError):
        converted(msgspec.Raw(raw.encode()), form)
