"""The Lua scripts of the limits, assembled from gateway/tenancy/limits/lua."""

from importlib.resources import files
from typing import Final

from gateway.store.lua_script import Script


def _source(*names: str) -> str:
    folder = files("gateway.tenancy.limits") / "lua"
    return "\n".join((folder / f"{name}.lua").read_text(encoding="utf-8") for name in names)


_SHARED: Final = ("clock", "windows", "ledger", "budgets", "leases")

#: Reserves, settles and books operations of one tenant.
BATCH: Final = Script(_source(*_SHARED, "batch"))
#: Reads the state of one tenant's limits and budgets.
STATE: Final = Script(_source(*_SHARED, "state"))
#: Reads what one tenant has used.
USAGE: Final = Script(_source("usage"))
#: Finds tenants with leases of workers that have gone silent.
TENANTS: Final = Script(_source("tenants"))
TENANTS_KEY: Final = "penstock:{leases}:tenants"


def base_key(tenant: str) -> str:
    """The prefix of all of a tenant's keys; its braces are a hash tag, so that they share one slot of a cluster."""
    return f"penstock:{{t:{tenant}}}"
