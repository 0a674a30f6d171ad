from typing import Any

import msgspec
import pytest

from gateway.kubernetes.objects import Pod
from gateway.scaling.kubernetes.pod_state import PodState, exactly_taken, pod_state
from protos.launch_step import LaunchStep


def state(uid: str = "u", status: dict[str, Any] | None = None, *, node: str = "n", **metadata: Any) -> PodState:
    owner = [{"kind": "ReplicaSet", "name": "r", "uid": metadata.pop("owner", "r"), "controller": True}]
    made = {"name": uid, "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": owner, **metadata}
    pod = {"metadata": made, "spec": {"nodeName": node}, "status": status or {}}
    return pod_state(msgspec.convert(pod, Pod))


def container(**of: Any) -> dict[str, Any]:
    return {"phase": "Running", "containerStatuses": [{"name": "r", "state": of}]}


READY = {**container(running={}), "conditions": [{"type": "Ready", "status": "True"}]}
UNPLACED = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no GPU"}],
}


@pytest.mark.parametrize(
    ("status", "step", "failure"),
    [
        ({"phase": "Pending"}, LaunchStep.ALLOCATE, ""),
        (container(waiting={"reason": "ContainerCreating"}), LaunchStep.ALLOCATE, ""),
        (container(running={}), LaunchStep.PROCESS, ""),
        (READY, LaunchStep.READY, ""),
        (
            container(waiting={"reason": "ImagePullBackOff", "message": "Back-off pulling\nimage"}),
            LaunchStep.FAILED,
            "container r: ImagePullBackOff: Back-off pulling image",
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    {
                        "name": "r",
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                        "lastState": {"terminated": {"exitCode": 1, "message": "no such checkpoint"}},
                    }
                ],
            },
            LaunchStep.FAILED,
            "container r: CrashLoopBackOff: back-off; it ended with status 1 no such checkpoint",
        ),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [{"name": "load", "state": {"waiting": {"reason": "ErrImageNeverPull"}}}],
            },
            LaunchStep.FAILED,
            "container load: ErrImageNeverPull: ",
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."},
            LaunchStep.FAILED,
            "its pod has ended: Evicted The node was low on resource: memory.",
        ),
    ],
)
def test_how_far_a_pod_is(status: dict[str, Any], step: LaunchStep, failure: str) -> None:
    found = state(status=status)
    assert (found.step, found.failure) == (step, failure)


def test_a_pod_that_is_told_to_end_is_stopping_and_not_active() -> None:
    found = state(status=READY, deletionTimestamp="2026-01-01T00:01:00Z", deletionGracePeriodSeconds=30)
    assert (found.step, found.is_active, found.is_terminating, found.grace) == (LaunchStep.STOPPING, False, True, 30)
    assert not state(status={"phase": "Failed"}).is_active


def test_a_pod_that_is_nowhere_says_why() -> None:
    found = state(status=UNPLACED, node="")
    assert (found.unplaced, found.unplaced_since) == ("no GPU", found.created)
    assert state(status=UNPLACED).unplaced == ""


@pytest.mark.parametrize(
    ("doomed", "others", "exact"),
    [
        ([READY], [READY, READY], True),
        ([READY], [], True),
        ([], [READY], True),
        ([container(running={})], [READY], True),
        # The ReplicaSet would rather have what is not ready.
        ([READY], [READY, container(running={})], False),
        ([READY, {"phase": "Pending"}], [container(running={})], False),
    ],
)
def test_whether_a_smaller_scale_takes_the_doomed_alone(
    doomed: list[dict[str, Any]], others: list[dict[str, Any]], exact: bool
) -> None:
    assert exactly_taken([state(status=one) for one in doomed], [state(status=one) for one in others]) is exact


def test_of_two_replica_sets_it_is_not_known_which_is_made_smaller() -> None:
    assert not exactly_taken([state(status=READY, owner="old")], [state(status=READY, owner="new")])
