"""Budget alerts to the log and to a webhook."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from gateway.config.models.price import NANO
from gateway.tenancy.limits.post_json import WebhookFailed, post_json

log = logging.getLogger(__name__)

#: Seconds before each retry.
RETRY_SECONDS: Final = (1.0, 5.0, 30.0)
#: Concurrent webhook requests.
MAX_POSTS: Final = 2
#: Deliveries in flight at most; beyond, an alert goes to the log only.
MAX_DELIVERIES: Final = 64


class BudgetAlert(msgspec.Struct, frozen=True, kw_only=True):
    """The webhook's JSON body. `scope` is `tenant`, `key:ID` or `model:NAME`; `period` as `2026-11` or a day."""

    type: str = "budget_alert"
    tenant: str
    scope: str
    period: str
    percent: int
    spent_usd: float
    budget_usd: float


class Alerts:
    """Delivers each alert of a settlement; the store ensures that each occurs once a period."""

    def __init__(self, webhook: str | None, *, retries: Sequence[float] = RETRY_SECONDS) -> None:
        self._webhook = webhook
        self._retries = retries
        self._deliveries: set[asyncio.Task[None]] = set()
        self._posts = asyncio.Semaphore(MAX_POSTS)

    def announce(self, tenant: str, alert: tuple[str, str, int, int, int]) -> None:
        """Log an alert and post it; `alert` is (scope, period, percent, nanodollars spent, budget in nanodollars)."""
        scope, period, percent, spent, limit = alert
        told = BudgetAlert(
            tenant=tenant,
            scope=scope,
            period=period,
            percent=percent,
            spent_usd=round(spent / NANO, 6),
            budget_usd=limit / NANO,
        )
        log.warning(
            "budget of tenant %s (%s): %d %% of $%g for %s is spent", tenant, scope, percent, told.budget_usd, period
        )
        if self._webhook is None:
            return
        if len(self._deliveries) >= MAX_DELIVERIES:
            log.error("too many budget alerts wait for the webhook; one is not delivered")
            return
        task = asyncio.create_task(self._deliver(self._webhook, msgspec.json.encode(told)))
        self._deliveries.add(task)
        task.add_done_callback(self._deliveries.discard)

    async def aclose(self) -> None:
        """Cancel the deliveries in flight."""
        for task in self._deliveries:
            task.cancel()
        await asyncio.gather(*self._deliveries, return_exceptions=True)

    async def _deliver(self, url: str, body: bytes) -> None:
        for pause in (*self._retries, None):
            try:
                async with self._posts:
                    await post_json(url, body)
            except WebhookFailed as error:
                problem = str(error)
            else:
                return
            if pause is not None:
                await asyncio.sleep(pause)
        log.error("the webhook does not take a budget alert: %s", problem)
