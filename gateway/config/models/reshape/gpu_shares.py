"""Which GPUs of this machine are kept for pools whose replicas form host groups."""

from collections.abc import Mapping

from gateway.config.settings import Config


def gpu_shares(config: Config) -> Mapping[tuple[str, str], tuple[int, ...]]:
    """Return them by model and pool: the first ones of `launchers.local.gpus`, as many as such pools have at most.

    A GPU that another replica had would leave a group without its shape.
    """
    left = config.launchers.local.gpus or ()
    shares = {}
    for model in config.models:
        for pool in model.pools:
            if pool.group_gpus is not None and pool.launcher == "local" and pool.scaling is not None:
                shares[model.name, pool.name], left = left[: pool.scaling.max], left[pool.scaling.max :]
    return shares
