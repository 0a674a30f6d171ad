"""The limits' Lua programs, put together from the files in gateway/tenancy/limits/lua."""

from importlib.resources import files
from typing import Final

from gateway.store.lua_script import Script


def _source(*names: str) -> str:
    folder = files("gateway.tenancy.limits") / "lua"
    return "\n".join((folder / f"{name}.lua").read_text(encoding="utf-8") for name in names)


_SHARED: Final = ("clock", "windows", "ledger", "budgets", "leases")

#: Reservations, settlements and bookings of one tenant.
BATCH: Final = Script(_source(*_SHARED, "batch"))
#: What one tenant's limits and budgets hold.
STATE: Final = Script(_source(*_SHARED, "state"))
#: Tenants whose leases' holders have gone silent.
TENANTS: Final = Script(_source("tenants"))
TENANTS_KEY: Final = "penstock:{leases}:tenants"


def base_key(tenant: str) -> str:
    """What all of a tenant's keys begin with; its braces are a hash tag, so that they share one slot of a cluster."""
    return f"penstock:{{t:{tenant}}}"
