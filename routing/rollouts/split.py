"""Pure: which version of a model answers a request.

A split is the same on all workers and after a restart, as nothing but the request and the split count. Of two versions,
weighted rendezvous hashing comes down to one draw for each key, which is compared with the candidate's share: a share
that rises moves keys to the candidate and none back, and a new salt draws anew.
"""

from collections.abc import Callable
from hashlib import blake2b
from math import ceil
from typing import Final, Literal

import msgspec

from routing.rollouts.settings import ShadowSettings

#: The store's hash of model -> its split as JSON, and the channel in which it is told that any has changed.
SPLITS: Final = "penstock:{rollouts}:splits"
CHANGED: Final = "penstock:{rollouts}:changed"

SplitBy = Literal["tenant", "user", "conversation", "header"]

_DIGEST_BYTES: Final = 8
_DRAWS: Final = 256**_DIGEST_BYTES


class Split(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one model's requests are divided now.

    The `stable` version answers all but a `share`, 0 to 1, of the keys, which the `candidate` answers. `by` says what
    the keys are (`routing/rollouts/settings.py`), `header` is the name of that header, in lower case. With `tenants` or
    `tiers` only their requests are divided. By `shadow` requests are copied to the candidate; None: none are.
    `epoch` grows whenever measures shall begin anew: with a rollout, and with each of its stages. A model whose
    `candidate` is empty has no rollout, and its split keeps what has become stable.

    `warm` are the replicas of the candidate, by id, that take requests; None: all do.

    `configured` is the stable version of the configuration that it was begun under; a worker whose configuration names
    another one ignores the split. Empty: it holds under any.
    """

    model: str
    stable: str
    candidate: str = ""
    share: float = 0.0
    salt: str = ""
    by: SplitBy = "conversation"
    header: str = ""
    tenants: frozenset[str] = frozenset()
    tiers: frozenset[str] = frozenset()
    shadow: ShadowSettings | None = None
    epoch: int = 0
    warm: frozenset[str] | None = None
    configured: str = ""


class SplitKeys(msgspec.Struct, frozen=True):
    """The part of a request that a split goes by.

    `key` is that by which the split goes, or empty where the request has none: then it goes by its tenant.
    """

    tenant: str
    tier: str
    key: bytes = b""


def choose(split: Split, keys: SplitKeys) -> str:
    """Return the version that shall answer."""
    return split.candidate if chooser(split)(keys.tenant, keys.tier, keys.key) else split.stable


def chooser(split: Split) -> Callable[[str, str, bytes], bool]:
    """Return what tells of a tenant, its tier and a key whether the candidate shall answer.

    Two tenants' equal keys are drawn for each by itself.
    """
    if not split.candidate or split.share <= 0:
        return lambda tenant, tier, key: False
    # No tenant's name has a zero byte. Digests are compared as numbers are, the highest byte first.
    salt, most = split.salt.encode() + b"\0", ceil(split.share * _DRAWS)
    limit = b"\xff" * (_DIGEST_BYTES + 1) if most >= _DRAWS else most.to_bytes(_DIGEST_BYTES)

    def drawn(tenant: str, tier: str, key: bytes) -> bool:
        del tier
        return blake2b(b"%b%b\0%b" % (salt, tenant.encode(), key), digest_size=_DIGEST_BYTES).digest() < limit

    tenants, tiers = split.tenants, split.tiers
    if not tenants and not tiers:
        return drawn

    def divided(tenant: str, tier: str, key: bytes) -> bool:
        if (tenants and tenant not in tenants) or (tiers and tier not in tiers):
            return False
        return drawn(tenant, tier, key)

    return divided
