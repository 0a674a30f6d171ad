"""The terms between a caller and a model: worked out once, and anew whenever something they come from has changed."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gateway.config.models.price import Price
from gateway.config.tenants import DEFAULT_TIERS, Limits, Tenant, Tier, Waiting
from gateway.tenancy.auth.key_records import ApiKey
from gateway.tenancy.limits.plans import Plans
from gateway.tenancy.tenants.caller import UNBOUNDED, Caller, Terms
from protos.types import Adapter
from tests.models import model_of

KEY = ApiKey(key_id="k", name="k", created_at=0.0)
CALLER = Caller(KEY, Tenant(name="acme", cache_group="both"), DEFAULT_TIERS[1], 1)


def values_of(terms: Terms) -> dict[str, Any]:
    """All terms; the plan stands for itself by its digest."""
    return {**msgspec.structs.asdict(terms), "plan": terms.plan.digest}


def test_terms_are_what_caller_and_model_say() -> None:
    terms, tier, waiting = Plans("m", Price()).terms(CALLER), CALLER.tier, CALLER.tenant.waiting
    assert (terms.plan.tenant, terms.plan.model, terms.bounds) == ("acme", "m", UNBOUNDED)
    assert (terms.salt, terms.adapter, terms.queue_name) == (CALLER.cache_owner, "", "acme")
    assert (terms.origin.model, terms.origin.tenant) == ("m", "acme")
    assert (terms.rank, terms.weight, terms.reserved) == (1, tier.weight, tier.reserved)
    assert (terms.max_waiting, terms.max_wait_seconds) == (waiting.max_requests, waiting.max_seconds)


def test_terms_are_worked_out_once_for_each_model() -> None:
    one, other = Plans("m", Price()), Plans("n", Price())
    assert one.terms(CALLER) is one.terms(CALLER) is not other.terms(CALLER)
    assert one.of(CALLER) is one.terms(CALLER).plan
    assert replace(CALLER).terms == {}, "a caller that is made anew has worked out nothing"


@pytest.mark.parametrize(
    ("changes", "differ"),
    [
        ({"tenant": Tenant(name="acme", limits=Limits(rpm=5))}, {"plan", "salt"}),
        ({"tenant": Tenant(name="acme", limits=Limits(max_output_tokens=5))}, {"bounds", "salt"}),
        ({"tenant": Tenant(name="acme", model_limits={"m": Limits(max_input_tokens=5)})}, {"bounds", "salt"}),
        ({"tenant": Tenant(name="acme", cache_group="other")}, {"salt"}),
        ({"tenant": Tenant(name="acme", cache_group="both", waiting=Waiting(max_requests=3, max_seconds=4))},
         {"max_waiting", "max_wait_seconds"}),
        ({"key": msgspec.structs.replace(KEY, limits=Limits(tpm=7))}, {"plan"}),
        ({"key": msgspec.structs.replace(KEY, limits=Limits(default_output_tokens=7))}, {"bounds"}),
        ({"tier": Tier(name="t", weight=9.0, reserved=0.25)}, {"weight", "reserved"}),
        ({"rank": 2}, {"rank"}),
        ({"background": True}, {"queue_name"}),
    ],
)  # fmt: skip
def test_a_change_of_key_tenant_or_tier_takes_effect(changes: dict[str, Any], differ: set[str]) -> None:
    plans = Plans("m", Price())
    before = values_of(plans.terms(CALLER))
    after = values_of(plans.terms(replace(CALLER, **changes)))
    assert {name for name in before if before[name] != after[name]} == differ


def test_a_change_of_the_models_price_takes_effect() -> None:
    before, after = Plans("m", Price()).terms(CALLER), Plans("m", Price(input=1.0)).terms(CALLER)
    assert before.plan.digest != after.plan.digest


def test_an_adapter_has_a_salt_of_its_own_and_nothing_is_kept_of_it() -> None:
    model, caller = model_of(), replace(CALLER)
    terms = model.terms(caller)
    assert model.terms(caller) is terms
    tuned = replace(model, adapter=Adapter("tuned")).terms(caller)
    assert (tuned.salt, tuned.adapter) == (f"{terms.salt}:tuned", "tuned")
    assert tuned.plan is terms.plan
    assert list(caller.terms.values()) == [terms]
