"""The plans of one model's callers, each made once and kept by its caller."""

from gateway.config.models.price import Price
from gateway.tenancy.limits.plan import Plan, plan_for
from gateway.tenancy.tenants.caller import Caller


class Plans:
    """Makes plans. A `Caller` is a new object after any change to it, and so is its plan."""

    def __init__(self, model: str, price: Price) -> None:
        self._model = model
        self._price = price

    def of(self, caller: Caller) -> Plan:
        """Give the plan of the caller's requests to the model."""
        plan: Plan | None = caller.plans.get(self)
        if plan is None:
            plan = caller.plans[self] = plan_for(caller, self._model, self._price)
        return plan
