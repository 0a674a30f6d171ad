from dataclasses import astuple
from typing import Any

import pytest

from gateway.config.tenants import Limits, Tenant, Tier
from gateway.tenancy.auth.key_records import ApiKey
from gateway.tenancy.tenants.caller import UNBOUNDED, Caller
from protos.errors import EndpointNotAllowed


def caller_of(key: dict[str, Any], tenant: dict[str, Any]) -> Caller:
    return Caller(
        ApiKey(key_id="key_1", name="k", created_at=0.0, **key), Tenant(name="acme", **tenant), Tier(name="gold"), 0
    )


@pytest.mark.parametrize(
    ("key", "tenant", "allowed"),
    [
        (("*",), ("*",), True),
        (("m",), ("*",), True),
        (("*",), ("m",), True),
        (("m*",), ("?",), True),
        (("x",), ("*",), False),
        (("*",), ("x",), False),
        (("m",), ("x",), False),
    ],
)
def test_a_model_has_to_be_allowed_by_both(key: tuple[str, ...], tenant: tuple[str, ...], allowed: bool) -> None:
    assert caller_of({"models": key}, {"models": tenant}).allows_model("m") is allowed


def test_a_key_without_endpoints_may_use_all() -> None:
    caller = caller_of({}, {})
    assert all(caller.allows_endpoint(endpoint) for endpoint in ("chat", "completions", "models"))
    caller = caller_of({"endpoints": ("chat", "models")}, {})
    assert [caller.allows_endpoint(endpoint) for endpoint in ("chat", "completions", "models")] == [True, False, True]
    caller.require_endpoint("chat")
    with pytest.raises(EndpointNotAllowed, match=r"This API key may not use /v1/completions\.") as caught:
        caller.require_endpoint("completions")
    assert (caught.value.status, caught.value.code) == (403, "endpoint_not_allowed")


def test_the_strictest_bound_counts() -> None:
    caller = caller_of(
        {"limits": Limits(max_input_tokens=100, max_output_tokens=50)},
        {
            "limits": Limits(max_input_tokens=80, max_output_tokens=60, default_output_tokens=55),
            "model_limits": {"m": Limits(max_input_tokens=90, max_output_tokens=20), "n": Limits(max_input_tokens=7)},
        },
    )
    found = {model: astuple(caller.bounds(model)) for model in ("m", "n", "other")}
    assert found == {"m": (80, 20, 20), "n": (7, 50, 50), "other": (80, 50, 50)}


def test_whose_prefixes_a_caller_uses_is_told_apart_however_things_are_named() -> None:
    names = ["acme", "friends", "a.b", "a-b"]
    own = [Caller(ApiKey(key_id="k", name="k", created_at=0.0), Tenant(name=n), Tier(name="t"), 0) for n in names]
    grouped = [caller_of({}, {"cache_group": name}) for name in names]
    owners = [caller.cache_owner for caller in (*own, *grouped)]
    assert len(set(owners)) == len(owners)
    # What stands before a model's adapter, and what guards put before a tenant's name.
    assert not any(":" in owner or owner.startswith("safety/") for owner in owners)
    tenant = Tenant(name="b", cache_group="friends")
    other = Caller(ApiKey(key_id="k", name="k", created_at=0.0), tenant, Tier(name="t"), 0)
    assert other.cache_owner == owners[len(own) + 1]


def test_without_bounds_there_are_none() -> None:
    caller = caller_of({}, {})
    assert caller.bounds("m") is UNBOUNDED
    assert caller_of({"limits": Limits(max_output_tokens=5)}, {}).bounds("m").default_output is None
