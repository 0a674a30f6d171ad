"""Replicas that are pods: the service whose endpoints they are, and the workload that is scaled."""

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.config.tenants import END

#: The form of most objects' names, and of services', namespaces' and ports' (RFC 1123 and 1035; Kubernetes,
#: "Object Names and IDs").
_SUBDOMAIN: Final = rf"^[a-z0-9]([a-z0-9.-]{{0,251}}[a-z0-9])?{END}"
_LABEL: Final = rf"^[a-z0-9]([a-z0-9-]{{0,61}}[a-z0-9])?{END}"
_PORT_NAME: Final = rf"^[a-z0-9]([a-z0-9-]{{0,13}}[a-z0-9])?{END}"

_Name = Annotated[str, Meta(pattern=_SUBDOMAIN)]
_Label = Annotated[str, Meta(pattern=_LABEL)]
_Port = Annotated[int, Meta(ge=1, le=65535)] | Annotated[str, Meta(pattern=_PORT_NAME)]

WorkloadKind = Literal["deployment", "leaderworkerset"]


class Kubernetes(Record, frozen=True, kw_only=True):
    """The API server that pools with Kubernetes' objects are looked up at; it needs the extra `kubernetes`."""

    kubeconfig: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(
            description="A kubeconfig file, relative to this file's folder, whose current context counts. Unset: "
            "`$KUBECONFIG`, else the pod's own service account, else `~/.kube/config`."
        ),
    ] = None
    namespace: Annotated[
        _Label | None,
        Meta(description="Where objects are that are named without one; unset: the pod's, or the context's."),
    ] = None


class KubernetesService(Record, frozen=True, kw_only=True):
    """A service whose endpoints are the replicas."""

    service: Annotated[_Label, Meta(description="The service's name.")]
    namespace: Annotated[_Label | None, Meta(description="Its namespace; unset: `kubernetes.namespace`.")] = None
    port: Annotated[
        _Port | None,
        Meta(description="Name of the service's port, or number of the pods' port; needed where there are several."),
    ] = None
    path: Annotated[
        Annotated[str, Meta(pattern=rf"^/[!-~]*{END}", max_length=1024)] | None,
        Meta(description="What the API's paths follow, only of `openai`; unset: `/v1`."),
    ] = None
    labels: Annotated[
        bool,
        Meta(
            description="Take each replica's shape, role and version from its pod's labels `penstock/shape`, "
            "`penstock/role` and `penstock/version`. A pod without `penstock/shape` gets no requests."
        ),
    ] = False


class InferencePoolPods(Record, frozen=True, kw_only=True):
    """An InferencePool (`inference.networking.k8s.io/v1`): its ready pods are replicas, one for each target port."""

    name: Annotated[_Name, Meta(description="Its name.")]
    namespace: Annotated[_Label | None, Meta(description="Its namespace; unset: `kubernetes.namespace`.")] = None
    path: Annotated[
        Annotated[str, Meta(pattern=rf"^/[!-~]*{END}", max_length=1024)],
        Meta(description="What the API's paths follow."),
    ] = "/v1"


class KubernetesReplicas(Record, frozen=True, kw_only=True):
    """Replicas that are found in Kubernetes; exactly one of these."""

    kubernetes: Annotated[
        KubernetesService | None, Meta(description="The service of which they are endpoints, by its EndpointSlices.")
    ] = None
    inference_pool: Annotated[
        InferencePoolPods | None, Meta(description="The InferencePool whose selector they match; only of `openai`.")
    ] = None


class Workload(Record, frozen=True, kw_only=True):
    """The workload whose replicas `launcher: kubernetes` sets; exactly one of `deployment` and `leaderworkerset`."""

    deployment: Annotated[_Name | None, Meta(description="A Deployment, each of whose pods is a replica.")] = None
    leaderworkerset: Annotated[
        _Name | None, Meta(description="A LeaderWorkerSet, each of whose groups is a replica.")
    ] = None
    spot: Annotated[
        _Name | None,
        Meta(
            description="Another one of the kind, whose pods run on preemptible nodes; needed where `scaling.spot_max` "
            "is not 0."
        ),
    ] = None
    namespace: Annotated[_Label | None, Meta(description="Its namespace; unset: `kubernetes.namespace`.")] = None
    unschedulable_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=86_400,
            description="A pod that no node has had room for so long is given up, and the pool counts as one that "
            "cannot grow. Where nodes are added on demand: longer than that takes.",
        ),
    ] = 60.0

    @property
    def kind(self) -> WorkloadKind:
        """The kind of the workload."""
        return "deployment" if self.leaderworkerset is None else "leaderworkerset"

    @property
    def name(self) -> str:
        """The name of the one that is not preemptible."""
        return self.deployment or self.leaderworkerset or ""


def with_absolute_kubeconfig(kubernetes: Kubernetes, folder: Path) -> Kubernetes:
    """Make the path of the kubeconfig absolute."""
    if kubernetes.kubeconfig is None:
        return kubernetes
    return msgspec.structs.replace(kubernetes, kubeconfig=str((folder / kubernetes.kubeconfig).resolve()))
