"""The split that follows from a rollout's state: pure, so that whoever goes on with a rollout comes to the same one."""

from routing.rollouts.rollout import Rollout
from routing.rollouts.split import Split
from routing.rollouts.stages import BEFORE_WARM, SETTLED


def split_of(rollout: Rollout) -> Split:
    """Return what workers shall follow."""
    if rollout.phase in SETTLED:
        # Nothing is compared any more: the answers that still come count for no verdict.
        stable = stable_of(rollout)
        return Split(model=rollout.model, stable=stable, epoch=rollout.epoch, configured=rollout.configured)
    settings = rollout.settings
    return Split(
        model=rollout.model,
        stable=rollout.stable,
        candidate=rollout.candidate,
        share=rollout.share,
        salt=rollout.id,
        by=settings.split.by,
        header=(settings.split.header or "").lower(),
        tenants=frozenset(settings.split.tenants),
        tiers=frozenset(settings.split.tiers),
        shadow=settings.shadow if rollout.phase == "shadowing" else None,
        epoch=rollout.epoch,
        # Before, none has any requests but those that name it.
        warm=frozenset(rollout.warmed) if settings.warmup.requests and rollout.phase not in BEFORE_WARM else None,
        configured=rollout.configured,
    )


def stable_of(rollout: Rollout) -> str:
    """Return the version that is stable after what has happened so far."""
    return rollout.candidate if rollout.promoted else rollout.stable
