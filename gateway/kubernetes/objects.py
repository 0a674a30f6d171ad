"""What is read of Kubernetes' objects; whatever else they have is passed over.

Fields are those of the API's reference (Kubernetes 1.36) in its camel case; all that may be missing is optional.
"""

import msgspec


class _Object(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    pass


class Owner(_Object, frozen=True, kw_only=True):
    """What an object belongs to."""

    kind: str
    name: str
    uid: str
    controller: bool = False


class Metadata(_Object, frozen=True, kw_only=True):
    """An object's own data. Times are in RFC 3339."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[Owner] = []


class Condition(_Object, frozen=True, kw_only=True):
    """A condition of a pod, node or workload."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Watchable(_Object, frozen=True, kw_only=True):
    """Any object, of which only the metadata counts."""

    metadata: Metadata


# ---- endpoint slices (discovery.k8s.io/v1)


class EndpointConditions(_Object, frozen=True, kw_only=True):
    """How an endpoint is; None: not said, which counts as ready and not terminating."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Target(_Object, frozen=True, kw_only=True):
    """The object behind an endpoint."""

    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""


class HintedZone(_Object, frozen=True, kw_only=True):
    """A zone whose clients shall use an endpoint."""

    name: str = ""


class EndpointHints(_Object, frozen=True, kw_only=True):
    """Who shall use an endpoint, as topology-aware routing and `trafficDistribution` have it."""

    for_zones: list[HintedZone] | None = None


class Endpoint(_Object, frozen=True, kw_only=True):
    """One endpoint; of its addresses the first counts. `zone` is where it is."""

    addresses: list[str] = []
    conditions: EndpointConditions = EndpointConditions()
    target_ref: Target | None = None
    zone: str | None = None
    hints: EndpointHints | None = None


class EndpointPort(_Object, frozen=True, kw_only=True):
    """A port that all endpoints of a slice have."""

    name: str | None = None
    port: int | None = None
    protocol: str | None = None


class EndpointSlice(Watchable, frozen=True, kw_only=True):
    """A part of a service's endpoints, of one family of addresses."""

    address_type: str
    endpoints: list[Endpoint] | None = None
    ports: list[EndpointPort] | None = None


# ---- pods and nodes (v1)


class ContainerWaiting(_Object, frozen=True, kw_only=True):
    """Why a container does not run."""

    reason: str = ""
    message: str = ""


class ContainerEnded(_Object, frozen=True, kw_only=True):
    """How a container has ended."""

    exit_code: int = 0
    message: str = ""


class ContainerRunning(_Object, frozen=True, kw_only=True):
    """A container runs."""


class ContainerState(_Object, frozen=True, kw_only=True):
    """One of these."""

    running: ContainerRunning | None = None
    waiting: ContainerWaiting | None = None
    terminated: ContainerEnded | None = None


class ContainerStatus(_Object, frozen=True, kw_only=True):
    """How a pod's container is, and how it ended before."""

    name: str
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(_Object, frozen=True, kw_only=True):
    """How a pod is."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class PodSpec(_Object, frozen=True, kw_only=True):
    """Where a pod runs; empty: nowhere yet."""

    node_name: str = ""


class Pod(Watchable, frozen=True, kw_only=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, type_: str) -> Condition | None:
        """The condition of a type; None: it has none."""
        return next((one for one in self.status.conditions or () if one.type == type_), None)


class Taint(_Object, frozen=True, kw_only=True):
    """A node's taint."""

    key: str
    effect: str = ""
    time_added: str | None = None


class NodeSpec(_Object, frozen=True, kw_only=True):
    """What is set about a node."""

    taints: list[Taint] | None = None


class NodeStatus(_Object, frozen=True, kw_only=True):
    """How a node is."""

    conditions: list[Condition] | None = None


class Node(Watchable, frozen=True, kw_only=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# ---- workloads (apps/v1, leaderworkerset.x-k8s.io/v1)


class LabelRequirement(_Object, frozen=True, kw_only=True):
    """One of `In`, `NotIn`, `Exists` and `DoesNotExist`, for a label."""

    key: str
    operator: str
    values: list[str] = []

    @property
    def text(self) -> str:
        """As a list is asked for it."""
        values = ",".join(self.values)
        forms = {"In": f"{self.key} in ({values})", "NotIn": f"{self.key} notin ({values})", "Exists": self.key}
        return forms.get(self.operator, f"!{self.key}")


class LabelSelector(_Object, frozen=True, kw_only=True):
    """Which pods are a workload's, by their labels."""

    match_labels: dict[str, str] = {}
    match_expressions: list[LabelRequirement] = []

    @property
    def text(self) -> str:
        """As a list is asked for it."""
        labels = [f"{name}={value}" for name, value in sorted(self.match_labels.items())]
        return ",".join([*labels, *(one.text for one in self.match_expressions)])


class WorkloadSpec(_Object, frozen=True, kw_only=True):
    """What is set about a workload; a LeaderWorkerSet has no selector."""

    replicas: int = 1
    selector: LabelSelector | None = None


class WorkloadStatus(_Object, frozen=True, kw_only=True):
    """How a workload is."""

    conditions: list[Condition] | None = None


class Workload(Watchable, frozen=True, kw_only=True):
    """A Deployment or a LeaderWorkerSet."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


# ---- inference pools (inference.networking.k8s.io/v1)


class TargetPort(_Object, frozen=True, kw_only=True):
    """A port of each pod of an InferencePool."""

    number: int


class InferencePoolSpec(_Object, frozen=True, kw_only=True):
    """Which pods are an InferencePool's."""

    selector: LabelSelector = LabelSelector()
    target_ports: list[TargetPort] = []


class InferencePool(Watchable, frozen=True, kw_only=True):
    """An InferencePool."""

    spec: InferencePoolSpec = InferencePoolSpec()


class ConfigMap(Watchable, frozen=True, kw_only=True):
    """A config map."""

    data: dict[str, str] | None = None
