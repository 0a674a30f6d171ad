"""What of a caller's records goes to the store, and what a worker remembers of it."""

import msgspec
import pytest

from gateway.config.models.price import Price
from gateway.config.tenants import DEFAULT_TIERS, Tenant
from gateway.tenancy.auth.key_records import ApiKey
from gateway.tenancy.limits import expected_output, store_limiter
from gateway.tenancy.limits.expected_output import ExpectedOutput
from gateway.tenancy.limits.plan import BudgetPlan, Scope
from gateway.tenancy.limits.plans import Plans
from gateway.tenancy.tenants.caller import Caller
from tests.gateway.tenancy.limits.bench import plan_of
from tests.gateway.tenancy.limits.worker import worker_of


def caller_of(key: str) -> Caller:
    record = ApiKey(key_id=key, name=key, created_at=0.0)
    return Caller(record, Tenant(name="acme"), DEFAULT_TIERS[0], 0)


def test_every_scope_with_a_limit_is_in_the_plan() -> None:
    plan = plan_of(
        "acme",
        rpm=1,
        budget={"usd": 0.1, "period": "day", "alerts": [90, 5]},
        of_key={"tpm": 2, "concurrency": 3},
        of_model={"input_tpm": 4, "output_tpm": 5, "budget": {"usd": 2}},
    )
    assert plan.scopes == (
        Scope("tenant", 1, 0, 0, 0, 0),
        Scope("key:k1", 0, 2, 0, 0, 3),
        Scope("model:m", 0, 0, 4, 5, 0),
    )
    assert plan.budgets == (
        BudgetPlan("tenant", 1, 100_000_000, (5, 90)),
        BudgetPlan("model:m", 2, 2_000_000_000, (75, 90)),
    )
    assert plan.metered
    assert not plan_of("acme", max_output_tokens=5).metered
    assert plan_of("acme", model="other", of_model=None, rpm=1).scopes == (Scope("tenant", 1, 0, 0, 0, 0),)


def test_what_is_sent_is_told_apart_by_its_digest() -> None:
    plan = plan_of("acme", rpm=1, price=Price(input=0.5, output=2.0))
    sent = msgspec.msgpack.decode(plan.encoded)
    assert sent == ["m", "k1", [["tenant", 1, 0, 0, 0, 0]], [], [500.0, 500.0, 2000.0], plan.digest]
    others = [
        plan_of("acme", rpm=2, price=plan.price),
        plan_of("acme", rpm=1),
        plan_of("acme", rpm=1, price=plan.price, key="k2"),
        plan_of("acme", rpm=1, price=plan.price, model="m2"),
        plan_of("acme", rpm=1, price=Price(input=0.5, cached_input=0.0, output=2.0)),
    ]
    assert len({plan.digest, *(other.digest for other in others)}) == 6
    assert plan_of("acme", rpm=1, price=plan.price).digest == plan.digest


def test_a_callers_plan_is_made_once_and_anew_when_it_changes() -> None:
    made, other = Plans("m", Price()), Plans("n", Price())
    caller = caller_of("a")
    assert made.of(caller) is made.of(caller)
    assert made.of(caller_of("a")) is not made.of(caller)
    assert (made.of(caller).model, other.of(caller).model) == ("m", "n")


def test_estimates_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected_output, "MAX_ENTRIES", 3)
    expected = ExpectedOutput()
    for number in range(10):
        expected.learn(plan_of(f"t{number}"), 10, 1)
    assert len(expected._means.items()) == 3
    assert expected.mean(plan_of("t9")) == 10
    assert expected.mean(plan_of("t0")) is None


async def test_remembered_rates_are_bounded(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_limiter, "MAX_RATES", 3)

    async with worker_of(store_url) as worker:
        for number in range(10):
            (await worker.reserve(plan_of("acme", rpm=99, key=f"k{number}"))).release()
        assert worker.limiter.last_rate("k9") is not None
        assert worker.limiter.last_rate("k0") is None
        assert len(worker.limiter._rates.items()) == 3
        await worker.settled()
