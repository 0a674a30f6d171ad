"""What the store says that a tenant has used."""

from datetime import timedelta

from gateway.tenancy.limits.usage_reading import UsageRow, usage
from tests.asgi import Client
from tests.loops import until
from tests.stores import is_idle


async def used(client: Client, tenant: str = "acme") -> UsageRow:
    client.gateway.limiter.book_now()
    await until(lambda: is_idle(client.gateway._limits_batcher))
    rows = await usage(client.gateway._store, [tenant], ["tenant"], timedelta(days=1))
    return rows[0] if rows else UsageRow()
