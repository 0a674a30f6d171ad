"""How many replicas the pools of a model's versions shall have that a launcher starts: pure."""

from collections.abc import Iterator

from gateway.config.models.settings import Model, Pool
from gateway.scaling.version_sizes import VersionSizes
from routing.rollouts.facts import VersionFacts
from routing.rollouts.rollout import ENDED, Rollout
from routing.rollouts.split_of import stable_of
from routing.rollouts.stages import target


def sizes_of(
    model: Model, stable: str, rollout: Rollout | None, stable_facts: VersionFacts, candidate_facts: VersionFacts
) -> VersionSizes:
    """Return the sizes; `stable` is the version that is stable where no rollout is under way."""
    launched = [pool for pool in model.pools if pool.launcher is not None and pool.version]
    if rollout is None or rollout.phase in ENDED:
        others = {pool.name: 0 for pool in launched if pool.version != stable}
        return VersionSizes(set=others, least=_spread(launched, stable, 0) if others else {})
    sized = {pool.name: 0 for pool in launched if pool.version not in (rollout.stable, rollout.candidate)}
    if rollout.promoted or rollout.phase == "rolling_back":
        # What the version that is left still has ends before its replicas do.
        left, facts = (rollout.stable, stable_facts) if rollout.promoted else (rollout.candidate, candidate_facts)
        for pool in _of(launched, left):
            sized[pool.name] = sum(replica.pool == pool.name for replica in facts.ready)
    else:
        sized |= _spread(launched, rollout.candidate, _wanted(rollout, candidate_facts))
    return VersionSizes(set=sized, least=_spread(launched, stable_of(rollout), rollout.size))


def _wanted(rollout: Rollout, candidate: VersionFacts) -> int:
    """Return how many of the candidate shall run now."""
    surge = rollout.settings.surge
    wanted = target(rollout)
    return wanted if surge is None else min(wanted, len(candidate.ready) + surge)


def _spread(pools: list[Pool], version: str, count: int) -> dict[str, int]:
    """Spread replicas over a version's pools, as many as each may have, in the order of the file."""
    spread = {}
    for pool in _of(pools, version):
        most = pool.scaling.max if pool.scaling is not None else 0
        spread[pool.name] = min(count, most)
        count -= spread[pool.name]
    return spread


def _of(pools: list[Pool], version: str) -> Iterator[Pool]:
    return (pool for pool in pools if pool.version == version)
