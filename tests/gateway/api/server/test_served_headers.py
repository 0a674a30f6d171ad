from types import SimpleNamespace
from typing import Any

import pytest

from gateway.api.server.served_headers import served_headers


def generation_of(version: str) -> Any:
    fleet = SimpleNamespace(version=lambda replica_id: version if replica_id == "p/0" else "?")
    return SimpleNamespace(replica_id="p/0", request=SimpleNamespace(model=SimpleNamespace(fleet=fleet)))


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
    assert served_headers(generation_of(version)) == [(b"x-penstock-model-version", shown)]


def test_nothing_is_said_where_nobody_knows() -> None:
    assert served_headers(generation_of("")) == []
