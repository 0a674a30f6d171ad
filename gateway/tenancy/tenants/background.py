"""Callers whose requests stand behind all others: of batches, replays, and copies."""

from typing import Final

import msgspec

from gateway.tenancy.tenants.caller import Caller

#: Their weight in a fleet on which others are active, too.
WEIGHT: Final = 0.01


def in_background(caller: Caller, rank: int, *, most_seconds: float | None = None) -> Caller:
    """Make of a caller one with the rank of the lowest tier and hardly any share.

    Its requests wait for admission as long as its tenant's, or for `most_seconds`.
    """
    tenant = caller.tenant
    if most_seconds is not None:
        patience = msgspec.structs.replace(tenant.waiting, max_seconds=most_seconds)
        tenant = msgspec.structs.replace(tenant, waiting=patience)
    tier = msgspec.structs.replace(caller.tier, weight=WEIGHT, reserved=0.0)
    return Caller(caller.key, tenant, tier, rank, background=True)
