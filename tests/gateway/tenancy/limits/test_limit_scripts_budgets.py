"""Budgets in the store: what they refuse, what they announce, and the calendar."""

import calendar
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config.models.price import Price
from gateway.tenancy.limits.usage_reading import DIMENSIONS, HOURS_KEPT, tenant_state, usage
from tests.gateway.tenancy.limits.bench import BOOK, SETTLE, UNUSED, USED, Bench, Held

#: A thousandth of a dollar for an output token, and nothing else: a budget of a dollar has 1000 of them.
PRICE = Price(output=1000.0)
TOKEN = 1_000_000
DOLLAR = 1000 * TOKEN
DAY, MONTH = 1, 2


def at(bench: Bench, moment: datetime) -> None:
    bench.now_ms = round(moment.timestamp() * 1000)


def test_a_budget_is_reserved_and_settled(bench: Bench) -> None:
    plan = bench.plan(price=Price(input=1.0, cached_input=0.25, output=4.0), budget={"usd": 1, "period": "day"})
    held = bench.hold(plan, 100, 50)
    assert bench.money("tenant", DAY)[:2] == (0, 100 * 1000 + 50 * 4000)
    assert bench.settle(held, 100, 20, cached=60)
    assert bench.money("tenant", DAY)[:2] == (40 * 1000 + 60 * 250 + 20 * 4000, 0)
    held = bench.hold(plan, 100, 50)
    assert bench.release(held)
    assert bench.money("tenant", DAY)[:2] == (40 * 1000 + 60 * 250 + 20 * 4000, 0)


def test_a_spent_budget_refuses_and_tells_what_is_left_of_its_period(bench: Bench) -> None:
    at(bench, datetime(2026, 11, 21, 18, 30, tzinfo=UTC))
    plan = bench.plan(price=PRICE, budget={"usd": 1, "period": "month"}, of_key={"budget": {"usd": 9, "period": "day"}})
    bench.settle(bench.hold(plan, 1, 1), 1, 1000)
    refused = bench.refused(plan)
    assert (refused.limit, refused.scope, refused.value, refused.used) == ("budget", "tenant", DOLLAR, DOLLAR)
    assert (refused.wait_ms, refused.period) == (-1, MONTH)
    assert refused.period_ms == (9 * 86_400 + 5 * 3600 + 1800) * 1000
    at(bench, datetime(2026, 11, 30, 23, 59, 59, 999_000, tzinfo=UTC))
    assert bench.refused(plan).period_ms == 1
    bench.now_ms += 1
    bench.hold(plan)
    assert bench.money().period == "2026-12"


def test_the_last_token_of_a_budget_can_be_had(bench: Bench) -> None:
    plan = bench.plan(price=PRICE, budget={"usd": 1})
    bench.settle(bench.hold(plan, 1, 1), 1, 999)
    bench.settle(bench.hold(plan, 1, 4000), 1, 1)
    assert bench.refused(plan).limit == "budget"
    free = bench.plan(model="free", budget={"usd": 1})
    bench.hold(free, 100, 100)


def test_an_estimate_alone_never_refuses_for_good(bench: Bench) -> None:
    plan = bench.plan(price=PRICE, budget={"usd": 1})
    held: list[Held] = [bench.hold(plan, 1, 400, unknown=400)]
    held.append(bench.hold(plan, 1, 400, unknown=400))
    # 200 tokens are left, so this may take part of what it is expected to.
    held.append(bench.hold(plan, 1, 400, unknown=400))
    refused = bench.refused(plan, 1, 400, unknown=400)
    assert (refused.limit, refused.value, refused.used) == ("budget_in_use", DOLLAR, 1200 * TOKEN)
    assert refused.wait_ms > 0
    for lease in held:
        bench.settle(lease, 1, 10)
    bench.hold(plan, 1, 400, unknown=400)
    assert bench.money().spent == 30 * TOKEN


def test_alerts_come_once_each_over_many_settlements_and_workers(bench: Bench) -> None:
    plans = [bench.plan(key=key, price=PRICE, budget={"usd": 1, "period": "month"}) for key in "abc"]
    month = "2026-09"
    at(bench, datetime(2026, 9, 3, tzinfo=UTC))
    for number in range(120):
        plan, holder = plans[number % 3], f"worker{number % 7}"
        held = bench.ask(plan, 1, 1, holder=holder)
        if isinstance(held, Held):
            bench.settle(held, 1, 10)
        bench.wait(1)
    assert bench.alerts == [
        ("tenant", month, 75, 750 * TOKEN, DOLLAR),
        ("tenant", month, 90, 900 * TOKEN, DOLLAR),
    ]
    at(bench, datetime(2026, 10, 1, tzinfo=UTC))
    bench.alerts.clear()
    bench.settle(bench.hold(plans[0]), 1, 950)
    assert [alert[1:3] for alert in bench.alerts] == [("2026-10", 75), ("2026-10", 90)]


def test_alerts_of_one_batch_and_of_each_scope(bench: Bench) -> None:
    plan = bench.plan(
        price=PRICE,
        budget={"usd": 2, "period": "month", "alerts": [50]},
        of_key={"budget": {"usd": 1, "period": "day", "alerts": [100, 10]}},
    )
    one, two = bench.hold(plan), bench.hold(plan)
    bench.batch([[SETTLE, one.id, USED, 1, 0, 600], [SETTLE, two.id, USED, 1, 0, 600]])
    assert sorted((alert[0], alert[2]) for alert in bench.alerts) == [("key:k1", 10), ("key:k1", 100), ("tenant", 50)]
    assert bench.money("key:k1", DAY).spent == bench.money("tenant", MONTH).spent == 1200 * TOKEN


def test_a_budget_that_is_lowered_below_what_is_spent_is_announced(bench: Bench) -> None:
    bench.settle(bench.hold(bench.plan(price=PRICE, budget={"usd": 2})), 1, 1000)
    assert bench.alerts == []
    lowered = bench.plan(price=PRICE, budget={"usd": 1.1})
    bench.settle(bench.hold(lowered), 1, 1)
    assert [alert[2] for alert in bench.alerts] == [75, 90]
    raised = bench.plan(price=PRICE, budget={"usd": 1.3})
    bench.settle(bench.hold(raised), 1, 1)
    assert len(bench.alerts) == 2, "once each per period, whatever becomes of the budget"


def test_a_lease_that_spans_two_periods_is_settled_where_it_was_reserved(bench: Bench) -> None:
    plan = bench.plan(price=PRICE, budget={"usd": 1, "period": "day"}, of_key={"budget": {"usd": 1, "period": "month"}})
    at(bench, datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC))
    held, released = bench.hold(plan, 1, 100, unknown=100), bench.hold(plan, 1, 100, unknown=100)
    bench.wait(2)
    assert bench.money("tenant", DAY)[:3] == (0, 0, "2027-01-01")
    bench.settle(held, 1, 800)
    bench.release(released)
    assert bench.money("tenant", DAY)[:3] == (0, 0, "2027-01-01")
    assert bench.money("key:k1", MONTH)[:3] == (0, 0, "2027-01")
    assert [alert[:3] for alert in bench.alerts] == [("tenant", "2026-12-31", 75), ("key:k1", "2026-12", 75)]
    bench.wait(-2)
    assert bench.money("tenant", DAY)[:3] == (800 * TOKEN, 0, "2026-12-31")
    assert bench.money("key:k1", MONTH)[:3] == (800 * TOKEN, 0, "2026-12")


def test_large_sums_stay_exact(bench: Bench) -> None:
    plan = bench.plan(price=Price(input=100_000, output=100_000), budget={"usd": 10**6})
    bench.settle(bench.hold(plan, 1, 1), 999_999, 9_000_000)
    assert bench.money().spent == 9_999_999 * 10**8
    bench.settle(bench.hold(plan, 0, 1), 0, 0)
    bench.settle(bench.hold(plan, 0, 1), 0, 1)
    assert bench.money().spent == 10**15
    assert bench.refused(plan).limit == "budget"


def check_calendar(bench: Bench, moment: datetime) -> None:
    at(bench, moment)
    day, month = bench.money("tenant", DAY), bench.money("tenant", MONTH)
    assert day.period == moment.strftime("%Y-%m-%d")
    assert month.period == moment.strftime("%Y-%m")
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    assert day.left_ms == round((midnight + timedelta(days=1) - moment).total_seconds() * 1000)
    days = calendar.monthrange(moment.year, moment.month)[1]
    assert month.left_ms == round((midnight.replace(day=1) + timedelta(days=days) - moment).total_seconds() * 1000)


def test_the_calendars_edges(bench: Bench) -> None:
    for year in (1999, 2000, 2004, 2026, 2027, 2099, 2100):
        for month in range(1, 13):
            last = calendar.monthrange(year, month)[1]
            for day in (1, 28, last):
                check_calendar(bench, datetime(year, month, day, tzinfo=UTC))
                check_calendar(bench, datetime(year, month, day, 23, 59, 59, 999_000, tzinfo=UTC))


def test_every_date_of_a_century(valkey_bench: Bench) -> None:
    @given(st.datetimes(datetime(2000, 1, 1), datetime(2100, 12, 31, 23, 59)))
    @settings(max_examples=400, deadline=None)
    def any_moment(moment: datetime) -> None:
        check_calendar(valkey_bench, moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=UTC))

    any_moment()


async def test_use_by_hour_and_by_day_is_what_was_settled(bench: Bench) -> None:
    at(bench, datetime(2026, 11, 20, 22, 15, tzinfo=UTC))
    sums: dict[tuple[Any, ...], list[int]] = {}
    for number in range(40):
        model, key = f"m{number % 3}", f"k{number % 2}"
        plan = bench.plan(model=model, key=key, rpm=1000, tpm=50, price=Price(input=1.0, output=2.0))
        held = bench.ask(plan, 10 + number, number)
        row = sums.setdefault((bench.tenant, model, key, bench_day(bench)), [0] * 7)
        if isinstance(held, Held):
            bench.settle(held, 10 + number, number, cached=3)
            for place, count in enumerate((1, 10 + number, 3, number, (10 + number) * 1000 + number * 2000)):
                row[place] += count
        else:
            row[5] += 1
            row[6] += 10 + number
        bench.wait(300)
    sums = {name: row for name, row in sums.items() if any(row)}

    for since in (timedelta(hours=20), HOURS_KEPT, HOURS_KEPT + timedelta(seconds=1)):
        rows = await usage(bench, [bench.tenant], list(DIMENSIONS), since)
        found = {
            (row.tenant, row.model, row.key, row.day): [
                row.requests,
                row.input_tokens,
                row.cached_tokens,
                row.output_tokens,
                round(row.cost_usd * 10**9),
                row.rejected_requests,
                row.rejected_tokens,
            ]
            for row in rows
        }
        assert found == sums
        (total,) = await usage(bench, [bench.tenant], ["tenant"], since)
        assert total.requests == sum(row[0] for row in sums.values())
    assert await usage(bench, [], [], timedelta(days=1)) == []
    state = await tenant_state(bench, bench.tenant, ["tenant", "key:k1"], [("tenant", "month")])
    assert [scope.in_flight for scope in state.scopes] == [0, 0]
    assert sum(state.refused.values()) == sum(row[5] for row in sums.values())


def bench_day(bench: Bench) -> str:
    return datetime.fromtimestamp(bench.now_ms / 1000, UTC).strftime("%Y-%m-%d")


def test_a_budget_begins_with_what_the_books_of_its_period_say(bench: Bench) -> None:
    at(bench, datetime(2026, 11, 20, 12, tzinfo=UTC))
    free, other = bench.plan(price=PRICE), bench.plan(model="other", price=PRICE)
    bench.batch([[BOOK, 1, 1, 1, 5, 0, 100, 0, 0, 0]], [free])
    at(bench, datetime(2026, 11, 21, 12, tzinfo=UTC))
    bench.batch([[BOOK, 2, 1, 1, 5, 0, 200, 0, 0, 0], [BOOK, 3, 2, 1, 5, 0, 40, 0, 0, 0]], [free, other])
    assert bench.money(period=DAY).spent == 240 * TOKEN
    assert bench.money(period=MONTH).spent == 340 * TOKEN
    assert bench.money(f"model:{other.model}", DAY).spent == 40 * TOKEN
    assert bench.money(f"key:{free.key_id}", MONTH).spent == 340 * TOKEN
    assert bench.money("key:another", MONTH).spent == 0
    late = bench.plan(price=PRICE, budget={"usd": 0.2, "period": "day"})
    assert bench.refused(late).used == 240 * TOKEN
    # What is used from now on comes on top, once.
    wide = bench.plan(price=PRICE, budget={"usd": 1, "period": "month"})
    bench.settle(bench.hold(wide, 1, 1), 1, 60)
    assert bench.money(period=MONTH).spent == 400 * TOKEN


def test_use_of_the_same_batch_is_in_the_books_that_a_budget_begins_with(bench: Bench) -> None:
    free, late = bench.plan(price=PRICE), bench.plan(price=PRICE, budget={"usd": 1})
    bench.batch([[BOOK, 1, 1, 1, 5, 0, 300, 0, 0, 0], [BOOK, 2, 2, 1, 5, 0, 50, 0, 0, 0]], [free, late])
    assert bench.money().spent == 350 * TOKEN


def test_a_budget_that_comes_back_knows_what_was_used_without_it(bench: Bench) -> None:
    at(bench, datetime(2026, 11, 21, 12, tzinfo=UTC))
    plan, free = bench.plan(price=PRICE, budget={"usd": 1, "period": "day"}), bench.plan(price=PRICE)
    bench.settle(bench.hold(plan, 1, 1), 1, 100)
    bench.wait(600)
    bench.batch([[BOOK, 1, 1, 1, 5, 0, 300, 0, 0, 0]], [free])
    assert bench.money(period=DAY).spent == 400 * TOKEN


def test_what_tokens_cost_beside_their_price_is_spent_and_booked(bench: Bench) -> None:
    plan = bench.plan(price=PRICE, budget={"usd": 1})
    bench.end(bench.hold(plan, 1, 1).id, USED, 1, 0, 10, 5 * TOKEN)
    bench.batch([[BOOK, 1, 1, 1, 1, 0, 10, 0, 0, -2 * TOKEN]], [plan])
    assert bench.money().spent == 23 * TOKEN
    bench.end(bench.hold(plan, 1, 1).id, UNUSED, 0, 0, 0, 5 * TOKEN)
    assert bench.money().spent == 23 * TOKEN
