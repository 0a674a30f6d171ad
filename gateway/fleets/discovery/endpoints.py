"""Which replicas a service's EndpointSlices name. Pure: they are watched elsewhere.

What the fields mean is said in Kubernetes' reference (discovery.k8s.io/v1) and in its concepts, "EndpointSlices".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.config.models.kubernetes import KubernetesService
from gateway.config.models.settings import Pool
from gateway.fleets.discovery.zones import nearness
from gateway.kubernetes.objects import Endpoint, EndpointPort, EndpointSlice

#: The label by which a slice says whose it is.
SERVICE_LABEL: Final = "kubernetes.io/service-name"
#: Replicas of one service at most; the others are left out.
MOST_REPLICAS: Final = 1024
_FAMILIES: Final = ("IPv4", "IPv6")


@dataclass(frozen=True, slots=True)
class PodEndpoint:
    """An endpoint that takes requests. `pod` and `uid` are empty where no pod is behind it.

    `near`: whether it is in the zone that was asked about, or meant for that; None: not known.
    """

    host: str
    port: int
    pod: str = ""
    uid: str = ""
    near: bool | None = None


def ready_endpoints(
    slices: Iterable[EndpointSlice], port: int | str | None, zone: str = ""
) -> tuple[list[PodEndpoint], str]:
    """Return the endpoints that take new requests, in a stable order, and what is wrong with the others.

    One that is not ready or that terminates is none of them: what it has begun may end. A pod with addresses of both
    families is one replica.

    Args:
        slices: The slices of one service.
        port: Name of a port of the slices, or the number of the pods' port; None: their only one.
        zone: Where they are to be near; empty: nothing is said of that.
    """
    found: dict[str, PodEndpoint] = {}
    taken: dict[str, Endpoint] = {}
    problems: dict[str, None] = {}
    for one in sorted(slices, key=lambda one: (one.address_type not in _FAMILIES[:1], one.metadata.name)):
        if one.address_type not in _FAMILIES:
            problems[f"endpoints of type {one.address_type} are no addresses"] = None
            continue
        number, problem = _port(one, port)
        for endpoint in one.endpoints or ():
            if problem:
                problems[problem] = None
            elif _takes_requests(endpoint):
                target = endpoint.target_ref
                pod, uid = (target.name, target.uid) if target is not None and target.kind == "Pod" else ("", "")
                host = endpoint.addresses[0]
                taken.setdefault(uid or host, endpoint)
                found.setdefault(uid or host, PodEndpoint(host, number, pod, uid))
    if zone:
        for key, near in zip(taken, nearness(taken.values(), zone), strict=True):
            found[key] = replace(found[key], near=near)
    ordered = sorted(found.values(), key=lambda one: (one.host, one.port))
    if len(ordered) > MOST_REPLICAS:
        problems[f"it has {len(ordered)} endpoints, of which {MOST_REPLICAS} are taken"] = None
    return ordered[:MOST_REPLICAS], "; ".join(problems)


def endpoint_address(pool: Pool, service: KubernetesService, endpoint: PodEndpoint) -> str:
    """The address of an endpoint of a pool's service, as the configuration would write it."""
    scheme, path = ("http", service.path or "/v1") if pool.engine == "openai" else ("grpc", "")
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{scheme}{'s' if pool.tls is not None else ''}://{host}:{endpoint.port}{path.rstrip('/')}"


def _takes_requests(endpoint: Endpoint) -> bool:
    # What is not said is true of `ready`, false of `terminating`.
    conditions = endpoint.conditions
    return bool(endpoint.addresses) and conditions.ready is not False and conditions.terminating is not True


def _port(one: EndpointSlice, wanted: int | str | None) -> tuple[int, str]:
    """Return the number of the wanted port, and what is wrong with it."""
    if isinstance(wanted, int):
        return wanted, ""
    ports = [port for port in one.ports or () if port.port and port.protocol in (None, "TCP")]
    if wanted is None:
        if len(ports) == 1:
            return ports[0].port or 0, ""
        if not ports:
            return 0, "it has no TCP port: replicas.kubernetes.port gives the pods' one by its number"
        return 0, f"it has several ports, of which replicas.kubernetes.port names none: {_names(ports)}"
    number = next((port.port for port in ports if port.name == wanted), None)
    return number or 0, "" if number else f"it has no port {wanted}, only {_names(ports) or 'none'}"


def _names(ports: Sequence[EndpointPort]) -> str:
    return ", ".join(f"{port.name or 'without a name'} ({port.port})" for port in ports)
