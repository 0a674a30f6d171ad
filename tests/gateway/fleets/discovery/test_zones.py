from typing import Any

import msgspec
import pytest

from gateway.fleets.discovery.zones import ZONE_VARIABLE, nearness, own_zone
from gateway.kubernetes.objects import Endpoint


def endpoint(zone: str | None, *hinted: str | None) -> Endpoint:
    fields: dict[str, Any] = {"addresses": ["10.0.0.1"], "zone": zone}
    if hinted:
        fields["hints"] = {"forZones": [{"name": name} for name in hinted if name]}
    return msgspec.convert(fields, Endpoint)


@pytest.mark.parametrize(
    ("endpoints", "near"),
    [
        ([], []),
        # Without hints it is where they are.
        ([endpoint("a"), endpoint("b"), endpoint(None)], [True, False, None]),
        # Hints go over that: an endpoint of another zone may be meant for this one.
        ([endpoint("b", "a", "b"), endpoint("a", "b")], [True, False]),
        # One without hints has all hints ignored.
        ([endpoint("b", "a"), endpoint("a")], [False, True]),
        ([endpoint("b", "a"), endpoint("a", None)], [False, True]),
    ],
)
def test_hints_count_where_all_have_some_and_else_the_zone(endpoints: list[Endpoint], near: list[bool | None]) -> None:
    assert nearness(endpoints, "a") == near


def test_hints_that_are_null_are_none() -> None:
    one = msgspec.convert({"addresses": [], "zone": None, "hints": {"forZones": None, "forNodes": []}}, Endpoint)
    assert nearness([one], "a") == [None]


def test_the_own_zone_is_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ZONE_VARIABLE, raising=False)
    assert own_zone() == ""
    monkeypatch.setenv(ZONE_VARIABLE, " eu-1a\n")
    assert own_zone() == "eu-1a"
