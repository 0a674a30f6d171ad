"""The heatmap that a model's routing names, held against the model and its pools."""

from gateway.config_models import Model
from protos.types import Role, Shape
from routing.heatmap import Heatmap, HeatmapError, load_heatmap


def usable_heatmap(model: Model) -> Heatmap | None:
    """The heatmap that a model names, if it names one.

    Raises HeatmapError when it cannot be read, is another model's or compares other shapes than those of the pools.
    """
    path = model.routing.heatmap_path
    if path is None:
        return None
    heatmap = load_heatmap(path)
    profiles = {pool.simulated.profile for pool in model.pools if pool.simulated is not None}
    if heatmap.model != model.name and heatmap.model not in profiles:
        raise HeatmapError(f"{path}: model: it was made for {heatmap.model}, and this model is {model.name}")
    missing = list(heatmap.missing(*(_shapes(model, role) for role in (Role.BOTH, Role.PREFILL, Role.DECODE))))
    if missing:
        colocated, prefill, decode = missing[0]
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise HeatmapError(
            f"{path}: comparisons: {_text(colocated)} colocated with {_text(prefill)} prefill and {_text(decode)} "
            f"decode is missing{more}"
        )
    return heatmap


def _shapes(model: Model, role: Role) -> list[Shape]:
    return [pool.shape.value for pool in model.pools if pool.role is role]


def _text(shape: Shape) -> str:
    """As `penstock bench heatmap` takes it."""
    degrees = (("tp", shape.tp), ("ep", shape.ep), ("pp", shape.pp))
    return ":".join(f"{name}={degree}" for name, degree in degrees if degree > 1 or name == "tp")
