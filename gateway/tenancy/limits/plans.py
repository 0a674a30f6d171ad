"""The subscriptions of callers to one model, each made once and kept by its caller."""

from gateway.config.models.price import Price
from gateway.tenancy.limits.plan import Plan, plan_for
from gateway.tenancy.tenants.caller import Caller, Subscription
from routing.estimates.decode_length import Origin


class Plans:
    """Makes subscriptions with their plans. A `Caller` is a new object after any change to it, and so are these."""

    def __init__(self, model: str, price: Price) -> None:
        self._model = model
        self._price = price

    def of(self, caller: Caller) -> Plan:
        """Give the plan of the caller's requests to the model."""
        return self.subscription(caller).plan

    def subscription(self, caller: Caller) -> Subscription:
        """Give the caller's subscription to the model."""
        subscription = caller.subscriptions.get(self)
        if subscription is None:
            tenant, tier = caller.tenant, caller.tier
            subscription = caller.subscriptions[self] = Subscription(
                plan=plan_for(caller, self._model, self._price),
                bounds=caller.bounds(self._model),
                salt=caller.cache_owner,
                origin=Origin(self._model, tenant.name),
                queue_name=caller.queue_name,
                rank=caller.rank,
                weight=tier.weight,
                reserved=tier.reserved,
                max_waiting=tenant.waiting.max_requests,
                max_wait_seconds=tenant.waiting.max_seconds,
            )
        return subscription
