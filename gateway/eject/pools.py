"""Pure: which pools move into the cluster, and the chart's values for each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.config.models.engine_checks import SESSIONS
from gateway.config.models.settings import Model, Pool
from gateway.fleets.local_replicas import engine_options

#: Fields of a pool that the chart writes itself, from values of the same or another name.
_CHARTS: Final = (
    *("name", "shape", "role", "engine", "version", "replicas", "launcher", "workload", "scaling", "replica_arguments"),
    "simulated",
)
#: Engines of other makers by a part of their image's name: what their commands are called, in arguments.
_SERVERS: Final = {
    "vllm": ("--model", "--tensor-parallel-size", "--pipeline-parallel-size", "--max-model-len", "--port", ()),
    "sglang": (
        "--model-path", "--tp-size", "--pp-size", "--context-length", "--port",
        ("python3", "-m", "sglang.launch_server", "--host", "0.0.0.0"),
    ),
    "tensorrt-llm": (
        "", "--tp_size", "--pp_size", "--max_seq_len", "--port",
        ("trtllm-serve", "serve", "--host", "0.0.0.0"),
    ),
}  # fmt: skip
_PORTS: Final = {"openai": 8000, "triton": 8001, "trtllm_grpc": 50051}
_HEALTH: Final = {"openai": "/health", "triton": ""}


class EjectError(ValueError):
    """A configuration that cannot be moved as it is; the text names the field and what helps."""


@dataclass(frozen=True, slots=True)
class MovedPool:
    """A pool's values for the chart, and what is still to be done about it."""

    values: dict[str, Any]
    notes: tuple[str, ...]


def stays(model: Model, pool: Pool, where: str, has_image: bool) -> bool:
    """Whether a pool goes on where it is: in a cluster, or elsewhere, and nobody has named an image for it.

    Raises:
        EjectError: Its servers are on this machine, which pods do not reach, and no image is named for it.
    """
    if pool.service is not None or pool.launcher == "kubernetes":
        return True
    if has_image or pool.engine == "simulated":
        return False
    if not pool.addresses:
        raise EjectError(
            f"{where}: its replicas shall run in the cluster, and the chart's image has no {pool.engine}: name one by "
            f"--image {pool.engine}=IMAGE"
        )
    local = [address for address in pool.addresses if _is_here(address)]
    if local:
        raise EjectError(f"{where}: no pod reaches {local[0]}: name an image by --image {model.name}/{pool.name}=IMAGE")
    return True


def unreachable(pool: Pool, where: str) -> Iterator[str]:
    """Yield a note for each address of a pool that stays whose name means nothing outside of a Compose project."""
    for a, address in enumerate(pool.addresses):
        host = _host(address)
        if host and "." not in host and ":" not in host:
            yield (
                f"{where}.replicas[{a}]: {host} is a name of one network, such as Docker Compose's: pods find only a "
                "Service of their namespace by it"
            )


def moved(model: Model, pool: Pool, raw: Mapping[str, Any], where: str, image: str) -> MovedPool:
    """The chart's values for a pool that shall run in the cluster; `raw` is the pool as the file writes it."""
    notes: list[str] = []
    shape = pool.shape.value
    values: dict[str, Any] = {"name": pool.name, "model": model.name, "engine": pool.engine}
    if raw.get("shape"):
        values["shape"] = {"tp": shape.tp, "ep": shape.ep, "pp": shape.pp}
    if raw.get("role"):
        values["role"] = pool.role.value
    if pool.version:
        values["version"] = pool.version
    if image:
        values["image"] = image
        notes.append(
            f"{where}: pods run as no root, with a read-only root file system; where {image} needs another user or "
            "more, set its pools[].podSecurityContext (as {runAsNonRoot: false}, or runAsUser) and "
            "readOnlyRootFilesystem: false"
        )
    values["replicas"] = pool.replica_count or 1
    if pool.is_registered and pool.scaling is None:
        notes.append(f"{where}: as many replicas as register themselves have become one: set pools[].replicas")
    if pool.scaling is not None:
        values["scaling"] = _scaling(pool)
        values["replicas"] = max(pool.scaling.min, 1)
        if pool.scaling.spot_max:
            notes.append(f"{where}: its {pool.scaling.spot_max} spot replicas need pools[].spot, with labels of nodes")
    if pool.engine in SESSIONS:
        values["args"] = _replica_arguments(model, pool)
        if pool.engine != "simulated" and "--checkpoint" not in pool.replica_arguments:
            notes.append(f"{where}: say by pools[].args what its replicas load, as [--checkpoint, /models/NAME]")
    else:
        values |= _server(model, pool, image, where, notes)
    if shape.gpus > 1 and pool.engine != "simulated":
        # Processes of one replica meet in /dev/shm; docs.vllm.ai, "Using Kubernetes".
        values["sharedMemory"] = "2Gi"
    rest = {key: value for key, value in raw.items() if key not in _CHARTS}
    if rest:
        values["config"] = rest
    return MovedPool(values, tuple(notes))


def _scaling(pool: Pool) -> dict[str, Any]:
    scaling = pool.scaling
    assert scaling is not None
    values: dict[str, Any] = {
        "by": "penstock",
        "min": scaling.min,
        "max": scaling.max,
        "startupSeconds": scaling.startup_seconds,
        "startTimeoutSeconds": scaling.start_timeout_seconds,
    }
    if scaling.price_per_hour is not None:
        values["pricePerHour"] = scaling.price_per_hour
    return values


def _replica_arguments(model: Model, pool: Pool) -> list[str]:
    """The arguments of `penstock replica` beside those that the chart writes."""
    options = [*engine_options(pool), *pool.replica_arguments]
    return options if pool.engine != "simulated" else ["--max-sequence-tokens", str(model.context), *options]


def _server(model: Model, pool: Pool, image: str, where: str, notes: list[str]) -> dict[str, Any]:
    """Command, port and health check of a server of another maker."""
    ports = {urlsplit(address).port for address in pool.listed_addresses} - {None}
    port = ports.pop() if len(ports) == 1 else _PORTS[pool.engine]
    values: dict[str, Any] = {"port": port}
    if health := _HEALTH.get(pool.engine, ""):
        values["healthPath"] = health
    known = next((server for part, server in _SERVERS.items() if part in image), None)
    if known is None or pool.engine != "openai":
        notes.append(f"{where}: say by pools[].command and pools[].args what {image} shall run")
        return values
    by_model, tp, pp, context, by_port, command = known
    name = (pool.upstream.model if pool.upstream is not None else None) or model.name
    shape = pool.shape.value
    arguments = [*([by_model] if by_model else []), name, tp, str(shape.tp)]
    arguments += [pp, str(shape.pp)] if shape.pp > 1 else []
    arguments += [context, str(model.context), by_port, str(port)]
    return values | ({"command": list(command)} if command else {}) | {"args": arguments}


def _is_here(address: str) -> bool:
    """Whether an address is one of this machine only."""
    if address.startswith("unix:"):
        return True
    host = _host(address)
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _host(address: str) -> str:
    return urlsplit(address.replace("+dns:", ":").replace("+srv:", ":")).hostname or ""
