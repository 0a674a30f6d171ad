"""What nodes say of preemptible capacity: whether it is, and when it will be taken away. Pure.

Labels, taints and conditions are those of the providers and of the tools that watch for their notices; times are what
the providers promise from the notice to the end.
"""

from collections.abc import Mapping
from typing import Final

from gateway.kubernetes.objects import Node

#: A label and its value on preemptible nodes: Karpenter; GKE, Spot and preemptible VMs; EKS managed node groups; AKS.
_SPOT_LABELS: Final = (
    ("karpenter.sh/capacity-type", "spot"),
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("cloud.google.com/gke-provisioning", "spot"),
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
)
#: Seconds from a taint until the node goes: AWS' interruption notice (the termination handler), GKE's graceful
#: termination, Karpenter, which drains first, and the autoscaler, which does as well.
_TAINTS: Final[Mapping[str, float]] = {
    "aws-node-termination-handler/spot-itn": 120.0,
    "aws-node-termination-handler/rebalance-recommendation": 120.0,
    "cloud.google.com/impending-node-termination": 25.0,
    "karpenter.sh/disrupted": 60.0,
    "ToBeDeletedByClusterAutoscaler": 60.0,
}
#: The same of a condition that is true: AKS' node problem detector tells of scheduled events.
_CONDITIONS: Final[Mapping[str, float]] = {"PreemptScheduled": 30.0, "TerminateScheduled": 30.0}


def is_spot(node: Node) -> bool | None:
    """Whether a node is preemptible; None: it has no label that says so or otherwise."""
    labels = node.metadata.labels
    said = [labels[name] == value for name, value in _SPOT_LABELS if name in labels]
    return any(said) if said else None


def notice_seconds(node: Node) -> float | None:
    """Seconds from a notice until the node goes, as its provider promises; None: there is no notice."""
    found = [_TAINTS[taint.key] for taint in node.spec.taints or () if taint.key in _TAINTS]
    found += [
        _CONDITIONS[one.type]
        for one in node.status.conditions or ()
        if one.status == "True" and one.type in _CONDITIONS
    ]
    return min(found, default=None)
