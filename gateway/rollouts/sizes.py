"""How many replicas the pools of a model's versions shall have that a launcher starts: pure."""

from collections.abc import Iterator

from gateway.config.models.settings import Model, Pool
from gateway.scaling.version_sizes import VersionSizes
from routing.rollouts.facts import VersionFacts
from routing.rollouts.rollout import ENDED, Rollout
from routing.rollouts.stages import target


def sizes_of(
    model: Model, stable: str, rollout: Rollout | None, stable_facts: VersionFacts, candidate_facts: VersionFacts
) -> VersionSizes:
    """Return the sizes; `stable` is the version that answers what no candidate does, by the file where that has been
    changed under the rollout.
    """
    launched = [pool for pool in model.pools if pool.launcher is not None and pool.version]
    if rollout is None or rollout.phase in ENDED:
        others = {pool.name: 0 for pool in launched if pool.version != stable}
        return VersionSizes(set=others, least=_spread(launched, stable, 0) if others else {})
    sized = {pool.name: 0 for pool in launched if pool.version not in (rollout.stable, rollout.candidate, stable)}
    if rollout.promoted or rollout.phase == "rolling_back":
        # What a version that is left still has ends before its replicas do.
        for version, facts in ((rollout.stable, stable_facts), (rollout.candidate, candidate_facts)):
            if version != stable:
                ready = [replica.pool for replica in facts.ready]
                sized |= {pool.name: ready.count(pool.name) for pool in _of(launched, version)}
    else:
        sized |= _spread(launched, rollout.candidate, _wanted(rollout, candidate_facts))
    return VersionSizes(set=sized, least=_spread(launched, stable, rollout.size))


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
