"""The scripts against a plain model of them, over any order of what workers do."""

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from gateway.config.models.price import Price
from gateway.tenancy.limits.plan import Plan
from tests.gateway.tenancy.limits.bench import BOOK, REJECTED, RESERVE, SETTLE, UNUSED, USED, Bench, Refusal, told
from tests.gateway.tenancy.limits.model import Model, period_of

SCOPES = ("tenant", "key:a", "key:b", "model:x", "model:y")
HOLDERS = st.integers(0, 3)
INPUTS = st.integers(0, 60)
OUTPUTS = st.integers(0, 90)


class Workers(RuleBasedStateMachine):
    """Four workers, two keys and two models of one tenant. `bench` and `limits` come from the test."""

    bench: Bench

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.bench = Bench(type(self).client)  # type: ignore[attr-defined]
        self.holders = [f"w{number}" for number in range(4)]
        self.ended: list[str] = []
        self.admitted: dict[str, int] = {}
        self.plans: dict[tuple[str, str], Plan] = {}
        self.booked = 0

    @initialize(
        limits=st.fixed_dictionaries(
            {},
            optional={
                "rpm": st.integers(1, 8),
                "tpm": st.integers(1, 400),
                "input_tpm": st.integers(1, 200),
                "output_tpm": st.integers(1, 200),
                "concurrency": st.integers(1, 4),
                "budget": st.fixed_dictionaries(
                    {"usd": st.floats(0.00001, 0.002), "period": st.sampled_from(["day", "month"])}
                ),
            },
        ),
        of_key=st.fixed_dictionaries({}, optional={"rpm": st.integers(1, 6), "concurrency": st.integers(1, 3)}),
        of_model=st.fixed_dictionaries({}, optional={"tpm": st.integers(1, 300), "budget": st.just({"usd": 0.001})}),
        into_day=st.integers(0, 86_400_000),
    )
    def begin(self, limits: dict[str, Any], of_key: dict[str, Any], of_model: dict[str, Any], into_day: int) -> None:
        self.bench.now_ms += into_day
        prices = {"x": Price(input=0.5, cached_input=0.1, output=2.0), "y": Price(input=3.0, output=0.0007)}
        for key in "ab":
            for model in "xy":
                self.plans[key, model] = self.bench.plan(
                    key=key, model=model, price=prices[model], **limits, of_key=of_key, of_model=of_model or {"rpm": 99}
                )

    @rule(
        holder=HOLDERS,
        key=st.sampled_from("ab"),
        model=st.sampled_from("xy"),
        given=INPUTS,
        most=st.integers(1, 90),
        n=st.integers(1, 3),
    )
    def reserve(self, holder: int, key: str, model: str, given: int, most: int, n: int) -> None:
        plan, who, now = self.plans[key, model], self.holders[holder], self.bench.now_ms
        name = f"{who}/{self.bench.number()}"
        self.model.sweep(now, who)
        output = self.model.estimate(plan, given, most, n, 40)
        refused = self.model.refusals(plan, given, output, now)
        (answer,) = self.bench.batch([[RESERVE, name, 1, given, most, n, 40]], [plan], holder=who)
        found = told(name, answer)
        if refused:
            assert isinstance(found, Refusal)
            if found.limit == "budget":
                assert refused[found.scope, "budget"] == -1
            else:
                assert refused[found.scope, found.limit] == found.wait_ms
                waits = [wait for (_, code), wait in refused.items() if code != "budget"]
                assert found.wait_ms == (-1 if -1 in waits else max(waits))
            self.model.reject(plan, given)
        else:
            assert not isinstance(found, Refusal)
            assert found is not None
            assert found.output == output <= most
            self.model.open(name, who, plan, given, output, n, now)
            self.admitted[name] = now
        self.model.spoke(who, now)

    @rule(place=st.integers(0, 1000), given=INPUTS, output=OUTPUTS, cached=st.integers(0, 60))
    def settle(self, place: int, given: int, output: int, cached: int) -> None:
        self.end(place, USED, given, min(cached, given), output)

    @rule(place=st.integers(0, 1000), ending=st.sampled_from([UNUSED, REJECTED]))
    def release(self, place: int, ending: int) -> None:
        self.end(place, ending, 0, 0, 0)

    def end(self, place: int, ending: int, given: int, cached: int, output: int) -> None:
        """One lease of a worker that lives, or one that has ended already."""
        names = [*self.model.leases, *self.ended]
        names = [name for name in names if name.rpartition("/")[0] in self.holders]
        if not names:
            return
        self.end_one(names[place % len(names)], ending, given, cached, output)

    def end_one(self, name: str, ending: int, given: int, cached: int, output: int) -> None:
        who, now = name.rpartition("/")[0], self.bench.now_ms
        self.model.sweep(now, who)
        lease = self.model.leases.get(name)
        used = (given, cached, output) if ending == USED else None
        expected = self.model.end(name, now, used, rejected=ending == REJECTED)
        if lease is not None and used and output:
            self.model.learn(lease.plan, output, lease.n)
        self.model.spoke(who, now)
        (ended,) = self.bench.batch([[SETTLE, name, ending, given, cached, output]], holder=who)
        assert bool(ended) == expected
        self.ended.append(name)
        if ending != USED:
            self.admitted.pop(name, None)

    @rule(
        holder=HOLDERS,
        key=st.sampled_from("ab"),
        requests=st.integers(0, 3),
        given=INPUTS,
        output=OUTPUTS,
        again=st.booleans(),
    )
    def book(self, holder: int, key: str, requests: int, given: int, output: int, again: bool) -> None:
        plan, who, now = self.plans[key, "x"], self.holders[holder], self.bench.now_ms
        self.model.sweep(now, who)
        self.booked += 1
        operation = [BOOK, self.booked, 1, requests, given, given // 2, output, 0, 0]
        self.model.book(plan, requests, given, given // 2, output, now)
        self.model.spoke(who, now)
        operations = [operation, list(operation)] if again else [operation]
        assert self.bench.batch(operations, [plan], holder=who)[0] == 1

    @rule(holder=HOLDERS)
    def touch(self, holder: int) -> None:
        who, now = self.holders[holder], self.bench.now_ms
        self.model.sweep(now, who)
        self.model.spoke(who, now)
        assert self.bench.touch(who) == bool(self.model.leases)

    @rule(holder=HOLDERS)
    def crash(self, holder: int) -> None:
        self.holders[holder] = f"w{holder}-{self.bench.number()}"

    @rule(ms=st.one_of(st.integers(0, 1500), st.integers(1500, 15_000), st.integers(50_000, 130_000)))
    def wait(self, ms: int) -> None:
        self.bench.now_ms += ms

    @invariant()
    def they_agree(self) -> None:
        if not self.plans:
            return
        bench, now = self.bench, self.bench.now_ms
        self.model.sweep(now)
        states = bench.states(SCOPES)
        for scope, state in zip(SCOPES, states, strict=True):
            assert list(state) == [*self.model.totals(scope, now), self.model.in_flight(scope)], scope
            assert min(state) >= 0
        assert {name.decode() for name in bench.hash("leases")} == set(self.model.leases)
        for (scope, period), money in self.model.budgets.items():
            found = bench.hash(f"budget:{scope}:{period}")
            assert int(found.get(b"spent", 0)) == money.spent
            assert int(found.get(b"reserved", 0)) == money.reserved >= 0
            for kind in (1, 2):
                if period == period_of(kind, now):
                    assert bench.money(scope, kind)[:2] == (money.spent, money.reserved)
        self.never_too_many()

    def never_too_many(self) -> None:
        """From what was admitted alone: no minute has had more requests than the limit, given back ones aside."""
        limit = next((s.requests for s in self.plans["a", "x"].scopes if s.name == "tenant"), 0)
        if limit:
            assert sum(at > self.bench.now_ms - 60_000 for at in self.admitted.values()) <= limit

    def teardown(self) -> None:
        if not self.plans:
            return
        for name in list(self.model.leases):
            if name.rpartition("/")[0] in self.holders:
                self.end_one(name, USED, 1, 0, 1)
        for _ in range(10):
            self.bench.wait(3)
            self.touch(0)
        self.they_agree()
        assert not self.model.leases
        self.bench.assert_nothing_open()
        self.the_ledger_agrees()

    def the_ledger_agrees(self) -> None:
        sums: dict[tuple[str, str], list[int]] = {}
        for key in self.bench.all_keys():
            if b":usage:d:" in key:
                for name, packed in self.bench.client.hgetall(key).items():
                    model, _, owner = name.decode().partition("\0")
                    row = sums.setdefault((model, owner), [0] * 7)
                    for place, count in enumerate(msgspec.msgpack.decode(packed)):
                        row[place] += count
        assert sums == {name: row.counts for name, row in self.model.rows.items()}
        spent = sum(row.counts[4] for row in self.model.rows.values())
        for budget in self.plans["a", "y"].budgets:
            if budget.scope == "tenant":
                assert sum(m.spent for (scope, _), m in self.model.budgets.items() if scope == "tenant") == spent


def test_the_scripts_do_what_the_model_does(valkey_bench: Bench) -> None:
    class Here(Workers):
        client = valkey_bench.client

    run_state_machine_as_test(Here, settings=settings(max_examples=60, stateful_step_count=40, deadline=None))
