"""Replicas of several pods, as LeaderWorkerSets: a group that loses a pod begins anew, whole."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.kubernetes.api import Object, wait_until
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.drills.streams import Streams
from tests.kubernetes.installed import Installed, pool, values
from tests.kubernetes.nodes import is_ready
from tests.kubernetes.processes import Running

pytestmark = pytest.mark.kubernetes

_STREAMS = 32
_GROUP = "leaderworkerset.sigs.k8s.io/group-index"


def _pods_of(installed: Installed, group: str) -> list[Object]:
    return installed.pods("replica", **{_GROUP: group})


def _is_whole(installed: Installed, group: str, before: frozenset[str] = frozenset()) -> bool:
    """Whether both pods of a group are ready, and are others than before."""
    found = _pods_of(installed, group)
    return [is_ready(one) for one in found] == [True, True] and not before & {one["metadata"]["uid"] for one in found}


def test_a_group_is_started_anew_when_one_of_its_pods_is_gone(
    plane: ControlPlane, groups: Running, installed: Installed, figures: Callable[[str], None]
) -> None:
    workers = {"command": ["sleep", "infinity"]}
    installed.install(values(pool(replicas=2, nodes=2, workers=workers, drainSeconds=5)))
    key = installed.serving()
    for group in ("0", "1"):
        wait_until(partial(_is_whole, installed, group), 120)
    with Streams(installed.address(), key, _STREAMS) as streams:
        wait_until(lambda: streams.open >= _STREAMS * 0.9)
        before = frozenset(one["metadata"]["uid"] for one in _pods_of(installed, "0"))
        [worker] = installed.pods("replica", **{_GROUP: "0", "leaderworkerset.sigs.k8s.io/worker-index": "1"})
        path = f"/api/v1/namespaces/{installed.namespace}/pods/{worker['metadata']['name']}"
        plane.api.delete(path, gracePeriodSeconds="0")
        took = wait_until(partial(_is_whole, installed, "0", before), 180, "the group is whole again")
    assert streams.broken == []
    figures(f"both of its pods were new and ready after {took:.0f} s, under {_STREAMS} streams: {streams.figures()}")
