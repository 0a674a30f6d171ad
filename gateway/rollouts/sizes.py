"""How many replicas the pools of a model's versions shall have that a launcher starts: pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import ceil

from gateway.config.models.settings import Model, Pool
from gateway.scaling.version_sizes import VersionSizes
from protos.types import Role
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
        return VersionSizes(set=others, least=_spread(launched, stable, 0, {}) if others else {})
    sized = {pool.name: 0 for pool in launched if pool.version not in (rollout.stable, rollout.candidate, stable)}
    if rollout.promoted or rollout.phase == "rolling_back":
        # What a version that is left still has ends before its replicas do.
        for version, facts in ((rollout.stable, stable_facts), (rollout.candidate, candidate_facts)):
            if version != stable:
                ready = [replica.pool for replica in facts.ready]
                sized |= {pool.name: ready.count(pool.name) for pool in _of(launched, version)}
    else:
        wanted = _wanted(rollout, candidate_facts)
        sized |= _spread(launched, rollout.candidate, wanted, _roles(model, stable_facts))
    own = {rollout.stable: stable_facts, rollout.candidate: candidate_facts}.get(stable, VersionFacts())
    return VersionSizes(set=sized, least=_spread(launched, stable, rollout.size, _roles(model, own)))


def room_of(model: Model, version: str, count: int, stable: VersionFacts) -> int:
    """Return how many of so many replicas launchers may start of a version, of each role in the `stable` proportion."""
    launched = [pool for pool in model.pools if pool.launcher is not None and pool.version]
    return sum(_spread(launched, version, count, _roles(model, stable)).values())


def _wanted(rollout: Rollout, candidate: VersionFacts) -> int:
    """Return how many of the candidate shall run now."""
    surge = rollout.settings.surge
    wanted = target(rollout)
    return wanted if surge is None else min(wanted, len(candidate.ready) + surge)


def _roles(model: Model, facts: VersionFacts) -> Mapping[Role, int]:
    """Return how many replicas of each role a version has, ready or not."""
    roles = {pool.name: pool.role for pool in model.pools}
    return Counter(roles[replica.pool] for replica in facts.replicas if replica.pool in roles)


def _spread(pools: list[Pool], version: str, count: int, like: Mapping[Role, int]) -> dict[str, int]:
    """Spread replicas over a version's pools: over roles in the proportion of `like`, and over those of one role in the
    order of the file, as many as each may have.
    """
    own = list(_of(pools, version))
    left = _parts({pool.role for pool in own}, count, like)
    spread = {}
    for pool in own:
        most = pool.scaling.max if pool.scaling is not None else 0
        spread[pool.name] = min(left[pool.role], most)
        left[pool.role] -= spread[pool.name]
    return spread


def _parts(roles: Iterable[Role], count: int, like: Mapping[Role, int]) -> dict[Role, int]:
    """Divide replicas among roles: of each one at least, as no other one serves without it."""
    known = {role: like.get(role, 0) for role in roles}
    total = sum(known.values())
    if len(known) < 2 or not count:
        return dict.fromkeys(known, count)
    # Where nothing is known, each role has its equal part.
    shares = {role: number / total if total else 1 / len(known) for role, number in known.items()}
    return {role: max(ceil(count * share - 1e-9), 1) for role, share in shares.items()}


def _of(pools: list[Pool], version: str) -> Iterator[Pool]:
    return (pool for pool in pools if pool.version == version)
