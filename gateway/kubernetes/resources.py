"""The kinds of objects that are read or written, as the API server's paths name them."""

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from gateway.kubernetes.objects import ConfigMap, EndpointSlice, InferencePool, Node, Pod, Watchable, Workload

T = TypeVar("T", bound=Watchable)


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """A kind of objects. `group` is empty for the core's; `plural` is its name in paths, and in roles."""

    group: str
    version: str
    plural: str
    form: type[T]
    namespaced: bool = True

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """The path of all objects, of one, or of a part of one."""
        base = f"apis/{self.group}/{self.version}" if self.group else f"api/{self.version}"
        place = f"/namespaces/{namespace}" if self.namespaced else ""
        return "/".join(filter(None, (f"{base}{place}/{self.plural}", name, subresource)))

    @property
    def role_name(self) -> str:
        """The resource as a role names it, as `endpointslices.discovery.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", EndpointSlice)
PODS: Final = Resource("", "v1", "pods", Pod)
NODES: Final = Resource("", "v1", "nodes", Node, namespaced=False)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", ConfigMap)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", Workload)
INFERENCE_POOLS: Final = Resource("inference.networking.k8s.io", "v1", "inferencepools", InferencePool)
LEADER_WORKER_SETS: Final = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", Workload)
