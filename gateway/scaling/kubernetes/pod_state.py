"""How a pod is, in the words of launchers. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gateway.kubernetes.objects import Condition, ContainerStatus, Pod
from protos.launch_step import LaunchStep

#: Reasons for which a container waits that do not pass by themselves (Kubernetes, "Pod Lifecycle" and "Images").
_STUCK: Final = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
_INDEX: Final = "leaderworkerset.sigs.k8s.io/group-index"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


@dataclass(frozen=True, slots=True)
class PodState:
    """A pod. `created` is in seconds since the epoch; `index` is that of its group, 0 where there is none.

    `is_active`: it has neither ended nor been told to. `unplaced`: why no node has room for it, since when; `failure`:
    why it does not run. `rank` says which pods a ReplicaSet ends first, those that compare lower.
    """

    name: str
    uid: str
    created: float
    index: int
    owner: str
    node: str
    step: LaunchStep
    is_active: bool
    is_terminating: bool
    is_disrupted: bool
    is_marked: bool
    grace: int | None
    failure: str
    unplaced: str
    unplaced_since: float
    rank: tuple[bool, int, bool]

    @property
    def age_key(self) -> tuple[int, float, str]:
        """Order pods by age."""
        return self.index, self.created, self.name


def pod_state(pod: Pod) -> PodState:
    """Read a pod as its launcher sees it; the step is `ready` where its readiness probe says so."""
    metadata, status = pod.metadata, pod.status
    created = seconds_of(metadata.creation_timestamp)
    terminating = metadata.deletion_timestamp is not None
    ended = status.phase in ("Failed", "Succeeded")
    scheduled, ready = pod.condition("PodScheduled"), pod.condition("Ready")
    unplaced = ""
    if not pod.spec.node_name and scheduled is not None and scheduled.status == "False":
        unplaced = scheduled.message or scheduled.reason or "no node has room for it"
    disrupted = pod.condition("DisruptionTarget")
    is_ready = ready is not None and ready.status == "True"
    failure = _failure(pod) if not terminating else ""
    return PodState(
        name=metadata.name,
        uid=metadata.uid,
        created=created,
        index=_index(metadata.labels.get(_INDEX, "")),
        owner=next((owner.uid for owner in metadata.owner_references if owner.controller), ""),
        node=pod.spec.node_name,
        step=_step(pod, failure, is_ready=is_ready, terminating=terminating),
        is_active=not terminating and not ended,
        is_terminating=terminating,
        is_disrupted=disrupted is not None and disrupted.status == "True",
        is_marked=DELETION_COST in metadata.annotations,
        grace=metadata.deletion_grace_period_seconds,
        failure=failure,
        unplaced=unplaced,
        unplaced_since=_since(scheduled, created),
        rank=(bool(pod.spec.node_name), {"Pending": 0, "Unknown": 1}.get(status.phase, 2), is_ready),
    )


def seconds_of(timestamp: str | None) -> float:
    """Seconds since the epoch of a time in RFC 3339; 0 for none."""
    try:
        return datetime.fromisoformat(timestamp or "").timestamp()
    except ValueError:
        return 0.0


def _step(pod: Pod, failure: str, *, is_ready: bool, terminating: bool) -> LaunchStep:
    if terminating:
        return LaunchStep.STOPPING
    if failure:
        return LaunchStep.FAILED
    if is_ready:
        return LaunchStep.READY
    if any(one.state.running is not None for one in pod.status.container_statuses or ()):
        return LaunchStep.PROCESS
    return LaunchStep.ALLOCATE


def _failure(pod: Pod) -> str:
    """Why the pod does not run and will not by itself; empty: it does, or may."""
    status = pod.status
    if status.phase in ("Failed", "Succeeded"):
        return " ".join(filter(None, (f"its pod has ended: {status.reason or status.phase}", status.message)))
    statuses = [*(status.init_container_statuses or ()), *(status.container_statuses or ())]
    return next(filter(None, map(_stuck, statuses)), "")


def _stuck(status: ContainerStatus) -> str:
    waiting = status.state.waiting
    if waiting is None or waiting.reason not in _STUCK:
        return ""
    ended = status.last_state.terminated
    last = "" if ended is None else f"; it ended with status {ended.exit_code} {ended.message}".rstrip()
    return f"container {status.name}: {waiting.reason}: {' '.join(waiting.message.split())}{last}"


def _since(condition: Condition | None, otherwise: float) -> float:
    return seconds_of(condition.last_transition_time) or otherwise if condition is not None else otherwise


def _index(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def exactly_taken(doomed: Iterable[PodState], others: Iterable[PodState]) -> bool:
    """Whether a ReplicaSet that is made smaller takes the doomed pods and no others, once they are marked.

    It compares by node, phase and readiness, then by deletion cost (Kubernetes, "ReplicaSet", pod deletion cost). While
    a rollout is on it is not known which of two ReplicaSets is made smaller.
    """
    doomed, others = list(doomed), list(others)
    if len({pod.owner for pod in (*doomed, *others)}) > 1:
        return False
    last = max((pod.rank for pod in doomed), default=None)
    return last is None or all(last <= pod.rank for pod in others)
