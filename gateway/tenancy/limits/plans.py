"""A cache of the plans of one model's callers."""

from gateway.caching.lru import Lru
from gateway.config.models.price import Price
from gateway.tenancy.limits.plan import Plan, plan_for
from gateway.tenancy.tenants.caller import Caller

MAX_PLANS = 10_000


class Plans:
    """Caches the plans of recent callers. A `Caller` is a new object after any change to it."""

    def __init__(self, model: str, price: Price) -> None:
        self._model = model
        self._price = price
        self._plans: Lru[tuple[str, bool], tuple[Caller, Plan]] = Lru(MAX_PLANS)

    def of(self, caller: Caller) -> Plan:
        of_key = caller.key.key_id, caller.background
        known = self._plans.get(of_key)
        if known is not None and known[0] is caller:
            return known[1]
        plan = plan_for(caller, self._model, self._price)
        self._plans.put(of_key, (caller, plan))
        return plan
