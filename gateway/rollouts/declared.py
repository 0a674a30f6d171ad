"""The rollouts and stable versions that the file declares, and which of them have been ordered: pure."""

from hashlib import blake2b

import msgspec

from gateway.config.models.settings import Model
from routing.rollouts.settings import Rollout as Settings
from routing.rollouts.split import Split


def digest_of(settings: Settings) -> str:
    """Return a digest of a declaration, by which it starts a rollout once; another webhook makes no other one."""
    encoded = msgspec.json.encode(msgspec.structs.replace(settings, webhook=None))
    return blake2b(encoded, digest_size=16).hexdigest()


def stable_now(model: Model, split: Split | None) -> str:
    """Return the stable version: what rollouts have left, unless the file names another one than it did then."""
    if split is None or split.configured not in ("", model.stable_version) or not has_version(model, split.stable):
        return model.stable_version
    return split.stable


def has_version(model: Model, version: str) -> bool:
    """Whether replicas of the version can be there: a pool names it, or one names none, so that its replicas do."""
    return "" in _versions(model) or version in _versions(model)


def _versions(model: Model) -> frozenset[str]:
    return frozenset(pool.version for pool in model.pools)
