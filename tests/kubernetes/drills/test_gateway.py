"""What is done to a cluster on its ordinary days, under streams: none of them is broken."""

import time
from collections.abc import Callable
from functools import partial

import pytest

from tests.kubernetes.api import wait_until
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.drills.streams import Streams
from tests.kubernetes.installed import Installed, pool, values
from tests.kubernetes.nodes import Played, is_ready

pytestmark = pytest.mark.kubernetes

_STREAMS = 128


def test_a_rolling_upgrade_of_the_gateway(installed: Installed, figures: Callable[[str], None]) -> None:
    given = values(pool(replicas=2))
    installed.install(given)
    key = installed.serving()
    with Streams(installed.address(), key, _STREAMS) as streams:
        wait_until(lambda: streams.open >= _STREAMS * 0.9, what=f"{_STREAMS} streams")
        before = {one["metadata"]["name"] for one in installed.pods("gateway")}
        begun = time.monotonic()
        given["gateway"]["podAnnotations"] = {"drill": "upgrade"}
        installed.install(given)
        installed.wait()
        wait_until(lambda: not before & {one["metadata"]["name"] for one in installed.pods("gateway")}, 120)
        took = time.monotonic() - begun
    assert streams.broken == []
    figures(f"{len(before)} pods replaced in {took:.0f} s under {_STREAMS} streams: {streams.figures()}")


@pytest.mark.parametrize("with_store", [False, True])
def test_a_node_is_drained(
    with_store: bool, plane: ControlPlane, beside: Played, installed: Installed, figures: Callable[[str], None]
) -> None:
    """Where the only store is on it, tenants that shall not notice are `fail_open`."""
    given = values(pool(replicas=2, drainSeconds=5))
    if with_store:
        given["config"]["tenants"] = [{"name": "default", "on_store_failure": "fail_open"}]
    else:
        given["store"] = {"nodeSelector": {"kubernetes.io/hostname": "node-1"}}
    installed.install(given)
    key = installed.serving()
    gateways = {one["spec"]["nodeName"] for one in installed.pods("gateway")}
    (store,) = installed.pods("store")
    node = store["spec"]["nodeName"] if with_store else "node-0"
    assert node in gateways
    with Streams(installed.address(), key, _STREAMS // 4) as streams:
        wait_until(lambda: streams.open >= _STREAMS // 4 * 0.9)
        # By now each of the gateways has had a request, and remembers the key.
        begun = time.monotonic()
        try:
            installed.kubectl("drain", node, "--delete-emptydir-data", "--ignore-daemonsets", "--timeout=240s")
            took = time.monotonic() - begun
            wait_until(lambda: len([one for one in installed.pods("gateway") if is_ready(one)]) == 2, 120)
            assert node not in {one["spec"]["nodeName"] for one in installed.pods("gateway")}
        finally:
            installed.kubectl("uncordon", node)
    assert streams.broken == []
    figures(f"drained in {took:.0f} s under {_STREAMS // 4} streams: {streams.figures()}")


def _two_ready(installed: Installed, component: str) -> list[str]:
    """Wait until a component has two pods, which are ready; their names."""

    def ready() -> bool:
        return [is_ready(one) for one in installed.pods(component)] == [True, True]

    wait_until(ready, 120, f"two pods of {component}")
    return [str(one["metadata"]["name"]) for one in installed.pods(component)]


def _replaced(installed: Installed, component: str, gone: str) -> bool:
    return gone not in _two_ready(installed, component)


def test_pods_are_evicted(plane: ControlPlane, installed: Installed, figures: Callable[[str], None]) -> None:
    installed.install(values(pool(replicas=2, drainSeconds=5)))
    key = installed.serving()
    with Streams(installed.address(), key, _STREAMS // 4) as streams:
        wait_until(lambda: streams.open >= _STREAMS // 4 * 0.9)
        for component in ("gateway", "replica"):
            first, second = _two_ready(installed, component)
            assert plane.api.evict(installed.namespace, first) == 201
            assert plane.api.evict(installed.namespace, second) == 429, "its budget is used up"
            wait_until(partial(_replaced, installed, component, first), 120)
    assert streams.broken == []
    figures(f"a gateway and a replica, under {_STREAMS // 4} streams: {streams.figures()}")
