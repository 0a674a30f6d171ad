"""Pure: what taking another configuration would do: what is rebuilt, what stays, and what needs a restart."""

from collections.abc import Sequence
from enum import Enum
from operator import eq
from typing import Final

import msgspec

from gateway.config.models.reshape.settings import Relaunch
from gateway.config.models.scaling import Scaling
from gateway.config.models.settings import Model, Pool
from gateway.config.settings import Config
from gateway.reload.changes import ORDER_OF, Change, changes

#: The sections that are taken without a restart, as far as nothing below says otherwise.
_TAKEN: Final = frozenset({"models", "rollouts", "tenants", "tiers", "safety"})
#: A model's fields that requests look up, and nothing is built of: its fleet and its queue stay.
_LOOKED_UP: Final = frozenset({"aliases", "fallbacks", "safety", "price", "embeddings", "drift"})


class Fate(Enum):
    """What becomes of a model."""

    #: It stays as it is.
    SAME = "same"
    #: Its fleet, sessions, prefix indexes, estimates and queue stay; what requests look up is new.
    ADJUSTED = "adjusted"
    #: It gets a fleet and a queue of its own beside the old ones, which serve the requests under way to their end.
    REBUILT = "rebuilt"
    ADDED = "added"
    #: It takes no more requests; those under way go on to their end.
    REMOVED = "removed"


class Plan(msgspec.Struct, frozen=True):
    """What a configuration would do in the place of another. `fates` are by the model's name, `SAME` ones included."""

    changes: Sequence[Change]
    restart: Sequence[Change]
    fates: dict[str, Fate]

    def named(self, fate: Fate) -> list[str]:
        """The models of one fate."""
        return [name for name, one in self.fates.items() if one is fate]


def plan(before: Config, after: Config) -> Plan:
    """Work out what taking `after` would do to a gateway that runs `before`."""
    found = changes(before, after)
    olds, news = _by_name(before), _by_name(after)
    fates = {name: fate_of(olds.get(name), news.get(name)) for name in dict.fromkeys((*news, *olds))}
    restart = [change for change in found if _needs_restart(change, before, after)]
    return Plan(found, restart, fates)


def fate_of(before: Model | None, after: Model | None) -> Fate:
    """Work out what becomes of a model; None where a configuration does not have it."""
    if before is None:
        return Fate.ADDED
    if after is None:
        return Fate.REMOVED
    if before == after:
        return Fate.SAME
    fields = {name for name in before.__struct_fields__ if getattr(before, name) != getattr(after, name)}
    if "scaling" in fields and _waiting(before) == _waiting(after):
        # The rest of it is the controller's.
        fields.remove("scaling")
    if "reshape" in fields and _relaunch(before) == _relaunch(after):
        # The rest of it is the controller's, too.
        fields.remove("reshape")
    if "pools" in fields and _same_replicas(before.pools, after.pools):
        fields.remove("pools")
    if "stable" in fields and before.names_versions and after.names_versions:
        # Its replicas are connected, whatever their version.
        fields.remove("stable")
    return Fate.ADJUSTED if fields <= _LOOKED_UP else Fate.REBUILT


def _by_name(config: Config) -> dict[str, Model]:
    return {model.name: model for model in config.models}


def _waiting(model: Model) -> tuple[str, float]:
    """Settings of requests that wait while there is no replica."""
    scaling = model.scaling or Scaling()
    return scaling.mode, scaling.wait_seconds


def _relaunch(model: Model) -> Relaunch | None:
    """Settings of wide replicas that launchers start in place of narrow ones."""
    return model.reshape.relaunch if model.reshape is not None else None


def _same_replicas(before: Sequence[Pool], after: Sequence[Pool]) -> bool:
    """Whether the fleet that has the replicas of `before` can have those of `after` with none of them changed."""
    return [pool.name for pool in before] == [pool.name for pool in after] and all(map(_same_pool, before, after))


def _same_pool(before: Pool, after: Pool) -> bool:
    """Whether replicas are only added or removed at the end of the list, whose places are their names."""
    if _apart_from_replicas(before) != _apart_from_replicas(after):
        return False
    if before.addresses == after.addresses:
        return before.replicas == after.replicas
    if before.is_discovered != after.is_discovered or not before.addresses or not after.addresses:
        return False
    # The shorter list is the beginning of the longer one.
    return all(map(eq, before.replica_keys, after.replica_keys))


def _apart_from_replicas(pool: Pool) -> Pool:
    """The pool without its list of replicas, and without what only those are told that a launcher starts."""
    return msgspec.structs.replace(pool, replicas="registered", scaling=None, replica_arguments=())


def _needs_restart(change: Change, before: Config, after: Config) -> bool:
    section = str(change.path[0])
    if section.removeprefix(ORDER_OF) == "tiers":
        # Ranks are places in this list; requests that wait have them.
        return section != "tiers" or len(change.path) == 2
    if section.startswith(ORDER_OF):
        return False
    if section not in _TAKEN:
        return True
    return section == "models" and (
        _is_of_launched(change, before, after)
        or _is_of_first_versions(change, before, after)
        or _is_first_drift(change, before, after)
    )


def _is_of_first_versions(change: Change, before: Config, after: Config) -> bool:
    """Whether a change of a model is what makes the first one go by version, or the last one no more: the controller
    does not start, or take rollouts on, in a gateway that runs.
    """
    if before.goes_by_version == after.goes_by_version:
        return False
    one = _by_name(after if after.goes_by_version else before).get(str(change.path[1]))
    return one is not None and one.names_versions


def _is_first_drift(change: Change, before: Config, after: Config) -> bool:
    """Whether a change gives a model `drift` where workers have counted it of none."""
    if any(model.drift is not None for model in before.models):
        return False
    new = _by_name(after).get(str(change.path[1]))
    return new is not None and new.drift is not None and (len(change.path) == 2 or change.path[2] == "drift")


def _is_of_launched(change: Change, before: Config, after: Config) -> bool:
    """Whether a change of a model is of what its launchers, or workers' reports to the controller, are made for."""
    name = str(change.path[1])
    old, new = _by_name(before).get(name), _by_name(after).get(name)
    if not any(model is not None and (model.scales or model.reshape is not None) for model in (old, new)):
        return False
    if old is None or new is None or len(change.path) == 2:
        return True
    field = change.path[2]
    if field == "scaling":
        return _waiting(old) != _waiting(new)
    if field == "reshape":
        return (old.reshape is None) != (new.reshape is None) or _relaunch(old) != _relaunch(new)
    if field == "pools":
        launched = [[(pool.replica_arguments, _kept_gpus(pool)) for pool in model.pools] for model in (old, new)]
        return launched[0] != launched[1] or not _same_replicas(old.pools, new.pools)
    return field not in _LOOKED_UP


def _kept_gpus(pool: Pool) -> int:
    """The GPUs that a launcher keeps for the pool's host groups."""
    return pool.scaling.max if pool.group_gpus is not None and pool.scaling is not None else 0
