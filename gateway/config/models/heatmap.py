"""Load a model's routing heatmap and check it against the model and its pools."""

from gateway.config.models.settings import Model
from protos.types import Role, Shape
from routing.contracts.heatmap import Heatmap, HeatmapError, load_heatmap


def usable_heatmap(model: Model) -> Heatmap | None:
    """Load a model's heatmap; None if it names none.

    Raises HeatmapError when it cannot be read, is another model's or compares other shapes than those of the pools.
    """
    path = model.routing.heatmap_path
    if path is None:
        return None
    heatmap = load_heatmap(path)
    profiles = {pool.simulated.profile for pool in model.pools if pool.simulated is not None}
    if heatmap.model != model.name and heatmap.model not in profiles:
        raise HeatmapError(f"{path}: model: it was made for {heatmap.model}, and this model is {model.name}")
    gap = heatmap.gap(*(_shapes(model, role) for role in (Role.BOTH, Role.PREFILL, Role.DECODE)))
    if gap:
        raise HeatmapError(f"{path}: {gap}")
    return heatmap


def _shapes(model: Model, role: Role) -> list[Shape]:
    return [pool.shape.value for pool in model.pools if pool.role is role]
