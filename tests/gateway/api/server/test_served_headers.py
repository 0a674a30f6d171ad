from types import SimpleNamespace
from typing import Any

import pytest

from gateway.api.server.served_headers import served_headers


def generation_of(version: str, *adjusted: str, relay: object = None) -> Any:
    fleet = SimpleNamespace(version=lambda replica_id: version if replica_id == "p/0" else "?")
    request = SimpleNamespace(model=SimpleNamespace(fleet=fleet), adjusted=adjusted)
    return SimpleNamespace(replica_id="p/0", request=request, stream=SimpleNamespace(relay=relay))


@pytest.mark.parametrize(
    ("version", "shown"),
    [
        ("2026-01.3", b"2026-01.3"),
        ("a b\r\nx-evil: 1", b"a_b__x-evil:_1"),
        ("größe", b"gr__e"),
        ("v" * 200, b"v" * 128),
    ],
)
def test_the_version_is_a_header(version: str, shown: bytes) -> None:
    assert served_headers(generation_of(version)) == [(b"x-penstock-version", shown)]


def test_what_became_of_hints_is_a_header() -> None:
    headers = served_headers(generation_of("", "reasoning_effort=ignored", "max_tokens=12"))
    assert headers == [(b"x-penstock-adjusted", b"reasoning_effort=ignored, max_tokens=12")]


def test_an_upstream_gets_hints_as_they_came() -> None:
    generation = generation_of("", "reasoning_effort=ignored", relay=object())
    assert served_headers(generation) == []
    assert served_headers(generation, ("tools[0]=x:ignored",)) == [(b"x-penstock-adjusted", b"tools[0]=x:ignored")]


def test_nothing_is_said_where_nobody_knows() -> None:
    assert served_headers(generation_of("")) == []


def test_of_many_adjusted_parameters_some_are_told_and_the_rest_are_counted() -> None:
    adjusted = tuple(f"tools[{at}]=web_search:ignored" for at in range(10_000))
    ((_, told),) = served_headers(generation_of("", "max_tokens=12"), adjusted)
    shown = told.decode().split(", ")
    assert len(told) < 2100
    assert shown[:-1] == list(adjusted[: len(shown) - 1])
    assert shown[-1] == f"more={10_001 - (len(shown) - 1)}"
