"""Each tenant's share of a fleet, and the replicas that may compute each tenant's long prompts.

Pure functions of who is active: every worker that knows the same tenants and replicas comes to the same answer, and
nobody has to talk about it.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

#: Minimum part of the fleet for tenants with many or long prompts while others are active too. With only their share,
#: one of them among twenty light tenants would have a twentieth of an idle fleet.
HEAVY_PART = 0.5


class ActiveTenant(msgspec.Struct, frozen=True, array_like=True):
    """A tenant with admitted or waiting requests, or with some within the last seconds, and its tier.

    `rank`, `weight` and `reserved` are its tier's, and the rank names the tier. A `heavy` tenant wanted more prompts
    computed at once than it may on any replica it likes (gateway/scheduling/capacity.py).
    """

    name: str
    rank: int
    weight: float
    reserved: float
    heavy: bool = False


def shares(active: Iterable[ActiveTenant]) -> dict[str, float]:
    """Each active tenant's part of the fleet; the parts sum to 1.

    A tier has what is reserved for it, and by its weight a part of what is reserved for no active tier; its tenants
    have equal parts of that. A tier without active tenants lends all it has.
    """
    tiers: dict[int, list[ActiveTenant]] = {}
    for tenant in active:
        tiers.setdefault(tenant.rank, []).append(tenant)
    reserved = sum(members[0].reserved for members in tiers.values())
    weights = sum(members[0].weight for members in tiers.values())
    free, scale = max(0.0, 1.0 - reserved), max(1.0, reserved)
    return {
        tenant.name: (members[0].reserved / scale + free * members[0].weight / weights) / len(members)
        for members in tiers.values()
        for tenant in members
    }


def heavy_parts(active: Sequence[ActiveTenant]) -> dict[str, float]:
    """The part of the fleet for each heavy tenant's prompts: its share, or more where light tenants leave room.

    Light tenants together keep their shares, but of those not more than leaves the heavy ones `HEAVY_PART`, unless
    their tiers have more than that reserved.
    """
    share = shares(active)
    heavy = {tenant.name: share[tenant.name] for tenant in active if tenant.heavy}
    light = [tenant for tenant in active if not tenant.heavy]
    if not heavy or not light:
        return heavy
    reserved = sum({tenant.rank: tenant.reserved for tenant in light}.values())
    kept = min(sum(share[tenant.name] for tenant in light), max(1.0 - HEAVY_PART, reserved))
    whole = sum(heavy.values())
    if not whole:  # others have reserved everything
        return {name: (1.0 - kept) / len(heavy) for name in heavy}
    return {name: part / whole * (1.0 - kept) for name, part in heavy.items()}


def lanes(parts: Mapping[str, float], replicas: Iterable[tuple[str, int]], *, spare: bool) -> dict[str, frozenset[str]]:
    """Assign replicas, as (replica id, GPUs), to each tenant's part of the fleet.

    The largest replica goes first, and each to whom most of its part is still owed. With `spare` what the parts leave
    is owed to nobody, and at least one of two or more replicas stays free. A tenant whose part is too small for a
    replica of its own has one together with others.
    """
    ordered = sorted(replicas, key=lambda replica: (-replica[1], replica[0]))
    total = sum(gpus for _, gpus in ordered)
    # Rounded, so that workers which added the same numbers in another order assign alike.
    owed = {name: round(parts[name] * total, 6) for name in sorted(parts)}
    free = round((1.0 - sum(parts.values())) * total, 6) if spare else 0.0
    if spare and len(ordered) > 1:
        kept = next((replica for replica in ordered if replica[1] <= free), ordered[-1])
        ordered.remove(kept)
        free -= kept[1]
    found: dict[str, set[str]] = {name: set() for name in owed}
    tenants = dict.fromkeys((replica_id for replica_id, _ in ordered), 0)
    for replica_id, gpus in ordered:
        name = max(owed, key=owed.__getitem__, default=None)
        if name is None or free > owed[name]:
            free -= gpus
        else:
            owed[name] -= gpus
            found[name].add(replica_id)
            tenants[replica_id] += 1
    given = [replica for replica in ordered if tenants[replica[0]]] or ordered
    for mine in found.values():
        if not mine and given:
            replica_id, _ = min(given, key=lambda replica: tenants[replica[0]] / replica[1])
            mine.add(replica_id)
            tenants[replica_id] += 1
    return {name: frozenset(mine) for name, mine in found.items()}
