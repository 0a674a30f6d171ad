"""The limits' scripts in the hands of a test: in a real store, under a clock that stands still until it is moved."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
import redis

from gateway.config.models.price import Price
from gateway.config.tenants import DEFAULT_TIERS, Limits, Tenant
from gateway.store.lua_script import Script
from gateway.tenancy.auth.key_records import ApiKey
from gateway.tenancy.limits import limit_scripts as scripts
from gateway.tenancy.limits.limit_scripts import TENANTS_KEY, base_key
from gateway.tenancy.limits.plan import Plan, plan_for
from gateway.tenancy.tenants.caller import Caller
from protos.errors import StoreUnavailable

RESERVE, SETTLE, BOOK = 1, 2, 3
USED, UNUSED, REJECTED = 0, 1, 2
TTL_MS = 12_000
#: A second's first millisecond.
START_MS = 1_790_000_000_000
FREE = Price()


def plan_of(tenant: str, *, key: str = "k1", model: str = "m", price: Price = FREE, **limits: Any) -> Plan:
    """`limits` are the tenant's; `of_key` and `of_model` among them are the key's and the model's."""
    of_key, of_model = limits.pop("of_key", {}), limits.pop("of_model", None)
    own = {"name": tenant, "limits": limits} | ({"model_limits": {model: of_model}} if of_model else {})
    own |= {"on_store_failure": limits.pop("on_store_failure", "fail_closed")}
    record = ApiKey(key_id=key, name=key, tenant=tenant, created_at=0.0, limits=msgspec.convert(of_key, Limits))
    return plan_for(Caller(record, msgspec.convert(own, Tenant), DEFAULT_TIERS[0], 0), model, price)


class Refusal(NamedTuple):
    """As gateway/tenancy/limits/lua/batch.lua gives it."""

    limit: str
    scope: str
    value: int
    used: int
    asked: int
    wait_ms: int
    period_ms: int = 0
    period: int = 0


class Held(NamedTuple):
    """A reservation that was given."""

    id: str
    output: int
    requests: list[int]
    tokens: list[int]


class State(NamedTuple):
    """Of one scope, over the last minute, and its leases under way."""

    requests: int
    input: int
    output: int
    in_flight: int


class Money(NamedTuple):
    """Of one budget's period, in nanodollars."""

    spent: int
    reserved: int
    period: str
    left_ms: int


def with_clock(script: Script) -> str:
    """The script's source with the test's time, the last two of its arguments, in the place of the store's."""
    asked = "redis.call('TIME')"
    assert script.source.count(asked) == 1
    return script.source.replace(asked, "{table.remove(ARGV), table.remove(ARGV)}")


class Bench:
    """One tenant of its own, so that nothing has to be emptied; `now_ms` is what the store's clock shows."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.tenant = f"t{secrets.token_hex(8)}"
        self.base = base_key(self.tenant)
        self.now_ms = START_MS
        self.alerts: list[tuple[str, str, int, int, int]] = []
        self._numbers = 0
        self._shas = {
            name: client.script_load(with_clock(script))
            for name, script in (
                ("batch", scripts.BATCH),
                ("state", scripts.STATE),
                ("tenants", scripts.TENANTS),
            )
        }

    def plan(self, **options: Any) -> Plan:
        return plan_of(self.tenant, **options)

    def wait(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)

    def script(self, name: str, key: str, *arguments: str | bytes) -> Any:
        clock = (str(self.now_ms % 1000 * 1000), str(self.now_ms // 1000))
        return self.client.evalsha(self._shas[name], 1, key, *arguments, *clock)

    def batch(
        self,
        operations: Sequence[Sequence[Any]],
        plans: Sequence[Plan] = (),
        *,
        holder: str = "h",
        deadline: int = 0,
        ttl: int = TTL_MS,
    ) -> list[Any]:
        """The answers; alerts are gathered."""
        packed = msgspec.msgpack.encode([holder, ttl, deadline, [plan.encoded for plan in plans], operations])
        now_ms, answers, alerts = msgspec.msgpack.decode(self.script("batch", self.base, packed))
        assert now_ms == self.now_ms
        self.alerts += [tuple(alert) for alert in alerts]
        return list(answers)

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def ask(
        self,
        plan: Plan,
        given: int = 1,
        most: int = 1,
        *,
        n: int = 1,
        unknown: int = 128,
        holder: str = "h",
        deadline: int = 0,
    ) -> "Held | Refusal | None":
        """One reservation; None: it came too late."""
        name = f"{holder}/{self.number()}"
        operation = [RESERVE, name, 1, given, most, n, unknown]
        (answer,) = self.batch([operation], [plan], holder=holder, deadline=deadline)
        return told(name, answer)

    def hold(self, plan: Plan, given: int = 1, most: int = 1, **options: Any) -> Held:
        """One reservation that must be given."""
        held = self.ask(plan, given, most, **options)
        assert isinstance(held, Held), held
        return held

    def refused(self, plan: Plan, given: int = 1, most: int = 1, **options: Any) -> Refusal:
        """One reservation that must be refused."""
        refusal = self.ask(plan, given, most, **options)
        assert isinstance(refusal, Refusal), refusal
        return refusal

    def settle(self, held: Held, given: int = 1, output: int = 1, cached: int = 0) -> bool:
        return self.end(held.id, USED, given, cached, output)

    def release(self, held: Held, *, rejected: bool = False) -> bool:
        return self.end(held.id, REJECTED if rejected else UNUSED, 0, 0, 0)

    def end(self, name: str, *ending: int) -> bool:
        """Whether it was this that ended the lease."""
        (answer,) = self.batch([[SETTLE, name, *ending]], holder=name.rpartition("/")[0])
        return bool(answer)

    def touch(self, holder: str = "h") -> bool:
        """A sign of life; whether the tenant has leases."""
        (answer,) = self.batch([], holder=holder)
        assert isinstance(answer, bool)
        return answer

    def state(self, scope: str = "tenant") -> State:
        return self.states([scope])[0]

    def states(self, scopes: Sequence[str]) -> list[State]:
        return [State(*values) for values in self._state(scopes, ())[0]]

    def money(self, scope: str = "tenant", period: int = 2) -> Money:
        return Money(*self._state((), ((scope, period),))[1][0])

    def refusals(self) -> dict[str, int]:
        found = self._state((), ())[2]
        return dict(zip(found[::2], map(int, found[1::2]), strict=True))

    def _state(self, scopes: Sequence[str], budgets: Sequence[tuple[str, int]]) -> Any:
        return msgspec.msgpack.decode(
            self.script("state", self.base, msgspec.msgpack.encode([list(scopes), list(budgets)]))
        )

    def known(self, *tenants: str, empty: Sequence[str] = (), ttl: int = TTL_MS) -> list[str]:
        """Make tenants known as having leases; gives those that are to be looked at."""
        now_ms, over = self.script("tenants", TENANTS_KEY + self.tenant, str(ttl), str(len(empty)), *empty, *tenants)
        assert now_ms == self.now_ms
        return [name.decode() for name in over]

    def hash(self, kind: str) -> dict[bytes, bytes]:
        return dict(self.client.hgetall(f"{self.base}:{kind}"))

    def all_keys(self) -> list[bytes]:
        return list(self.client.scan_iter(match=f"{self.base}:*", count=1000))

    def lose(self) -> None:
        """All of the tenant's data, as if the store had come back empty."""
        for key in self.all_keys():
            self.client.delete(key)

    def assert_nothing_open(self) -> None:
        assert self.hash("leases") == {}
        assert self.hash("inflight") == {}
        assert set(self.hash("holders")) <= {b"next"}

    # What gateway/tenancy/limits/usage_reading.py needs of a store.

    async def now(self) -> float:
        return self.now_ms / 1000

    async def run_many(self, script: Script, calls: Sequence[tuple[str, bytes]]) -> list[bytes | StoreUnavailable]:
        assert script is scripts.USAGE
        return [self.client.eval(script.source, 1, key, argument) for key, argument in calls]

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        assert script is scripts.STATE
        return self.script("state", keys[0], *arguments)


def told(name: str, answer: list[Any]) -> Held | Refusal | None:
    """One answer to a reservation."""
    if answer[0] == 2:
        return None
    if answer[0] == 0:
        assert len(answer) == 8
        return Refusal(*answer[1])
    assert len(answer) == 8
    return Held(name, answer[1], answer[2:5], answer[5:8])


@contextmanager
def client_of(url: str) -> Iterator[Any]:
    """A client by hand for any kind of store."""
    if url.startswith("redis+cluster://"):
        cluster = redis.RedisCluster.from_url(url.replace("redis+cluster", "redis"))
        try:
            yield cluster
        finally:
            cluster.close()
    else:
        with redis.Redis.from_url(url) as client:
            yield client
