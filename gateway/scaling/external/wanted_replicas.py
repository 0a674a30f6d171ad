"""Pure: the replicas that the controller wants of a pool, for whoever scales it with another tool."""

from collections.abc import Mapping, Sequence

from gateway.scaling.status import FRESH_SECONDS, ScalingStatus


class BadTrigger(Exception):
    """A trigger's metadata name no pool; the text names the key."""


class NotKnown(Exception):
    """Nobody knows now how many replicas are wanted; the text says why. Whoever scales leaves the pool as it is."""


def pool_named(metadata: Mapping[str, str], pools: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Return the model and the pool that a trigger names; an only one need not be named. Raises BadTrigger.

    `pools` are those that scale, by model.
    """
    model = _named(metadata, "model", list(pools), "model with a pool that scales")
    return model, _named(metadata, "pool", pools[model], f"pool of the model {model} that scales")


def _named(metadata: Mapping[str, str], key: str, known: Sequence[str], what: str) -> str:
    name = metadata.get(key, "")
    if not name and len(known) == 1:
        return known[0]
    shown = ", ".join(known)
    if not name:
        raise BadTrigger(f"metadata.{key} is missing; there are {shown}")
    if name not in known:
        raise BadTrigger(f"metadata.{key}: there is no {what} by the name '{name[:128]}'; there are {shown}")
    return name


def wanted_replicas(now: float, status: ScalingStatus | None, model: str, pool: str) -> int:
    """Return what was decided last, by a controller that still speaks at `now`.

    A pool's own count in the status is 0 before the first decision, which would be zero by mistake. Raises NotKnown.
    """
    if status is None or now - status.at > FRESH_SECONDS:
        raise NotKnown("no controller has told anything lately")
    found = next((one for one in status.models if one.model == model), None)
    decided = found.decisions[-1].pools.get(pool) if found is not None and found.decisions else None
    if decided is None:
        raise NotKnown(f"the controller has decided nothing yet about the pool {pool} of the model {model}")
    return decided.wanted
