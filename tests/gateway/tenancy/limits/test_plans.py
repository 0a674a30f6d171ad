"""Subscriptions of callers to models: worked out once, and anew whenever something they come from has changed."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gateway.config.models.price import Price
from gateway.config.tenants import DEFAULT_TIERS, Limits, Tenant, Tier, Waiting
from gateway.tenancy.auth.key_records import ApiKey
from gateway.tenancy.limits.plans import Plans
from gateway.tenancy.tenants.caller import UNBOUNDED, Caller, Subscription
from protos.types import Adapter
from tests.models import model_of

KEY = ApiKey(key_id="k", name="k", created_at=0.0)
CALLER = Caller(KEY, Tenant(name="acme", cache_group="both"), DEFAULT_TIERS[1], 1)


def values_of(subscription: Subscription) -> dict[str, Any]:
    """All fields; the plan stands for itself by its digest."""
    return {**msgspec.structs.asdict(subscription), "plan": subscription.plan.digest}


def test_a_subscription_is_what_caller_and_model_say() -> None:
    subscription, tier, waiting = Plans("m", Price()).subscription(CALLER), CALLER.tier, CALLER.tenant.waiting
    assert (subscription.plan.tenant, subscription.plan.model, subscription.bounds) == ("acme", "m", UNBOUNDED)
    assert (subscription.salt, subscription.adapter, subscription.queue_name) == (CALLER.cache_owner, "", "acme")
    assert (subscription.origin.model, subscription.origin.tenant) == ("m", "acme")
    assert (subscription.rank, subscription.weight, subscription.reserved) == (1, tier.weight, tier.reserved)
    assert (subscription.max_waiting, subscription.max_wait_seconds) == (waiting.max_requests, waiting.max_seconds)


def test_a_subscription_is_worked_out_once_for_each_model() -> None:
    one, other = Plans("m", Price()), Plans("n", Price())
    assert one.subscription(CALLER) is one.subscription(CALLER) is not other.subscription(CALLER)
    assert one.of(CALLER) is one.subscription(CALLER).plan
    assert replace(CALLER).subscriptions == {}, "a caller that is made anew has worked out nothing"


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
    before = values_of(plans.subscription(CALLER))
    after = values_of(plans.subscription(replace(CALLER, **changes)))
    assert {name for name in before if before[name] != after[name]} == differ


def test_a_change_of_the_models_price_takes_effect() -> None:
    before, after = Plans("m", Price()).subscription(CALLER), Plans("m", Price(input=1.0)).subscription(CALLER)
    assert before.plan.digest != after.plan.digest


def test_an_adapter_has_a_salt_of_its_own_and_nothing_is_kept_of_it() -> None:
    model, caller = model_of(), replace(CALLER)
    subscription = model.subscription(caller)
    assert model.subscription(caller) is subscription
    tuned = replace(model, adapter=Adapter("tuned")).subscription(caller)
    assert (tuned.salt, tuned.adapter) == (f"{subscription.salt}:tuned", "tuned")
    assert tuned.plan is subscription.plan
    assert list(caller.subscriptions.values()) == [subscription]
