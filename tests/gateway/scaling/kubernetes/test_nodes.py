from typing import Any

import msgspec
import pytest

from gateway.kubernetes.objects import Node
from gateway.scaling.kubernetes.nodes import is_spot, notice_seconds


def node(labels: dict[str, str] | None = None, **rest: Any) -> Node:
    return msgspec.convert({"metadata": {"name": "n", "labels": labels or {}}, **rest}, Node)


@pytest.mark.parametrize(
    ("labels", "spot"),
    [
        ({}, None),
        ({"karpenter.sh/capacity-type": "spot"}, True),
        ({"karpenter.sh/capacity-type": "on-demand"}, False),
        ({"cloud.google.com/gke-spot": "true"}, True),
        ({"cloud.google.com/gke-preemptible": "true"}, True),
        ({"eks.amazonaws.com/capacityType": "SPOT"}, True),
        ({"eks.amazonaws.com/capacityType": "ON_DEMAND"}, False),
        ({"kubernetes.azure.com/scalesetpriority": "spot"}, True),
    ],
)
def test_labels_say_what_is_preemptible(labels: dict[str, str], spot: bool | None) -> None:
    assert is_spot(node(labels)) is spot


@pytest.mark.parametrize(
    ("rest", "seconds"),
    [
        ({}, None),
        ({"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}}, None),
        ({"spec": {"taints": [{"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}]}}, 120.0),
        ({"spec": {"taints": [{"key": "cloud.google.com/impending-node-termination"}]}}, 25.0),
        ({"status": {"conditions": [{"type": "PreemptScheduled", "status": "True"}]}}, 30.0),
        ({"status": {"conditions": [{"type": "PreemptScheduled", "status": "False"}]}}, None),
        (
            {
                "spec": {"taints": [{"key": "karpenter.sh/disrupted"}]},
                "status": {"conditions": [{"type": "PreemptScheduled", "status": "True"}]},
            },
            30.0,
        ),
    ],
)
def test_notices_say_when_a_node_goes(rest: dict[str, Any], seconds: float | None) -> None:
    assert notice_seconds(node(**rest)) == seconds
