"""Pools of pods that size themselves, by the controller and by an autoscaler that asks it."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.kubernetes.api import Object, wait_until
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.drills.metrics_adapter import metrics_adapter
from tests.kubernetes.drills.streams import Streams
from tests.kubernetes.installed import SMALL, Installed, pool, values
from tests.kubernetes.nodes import Played, is_ready

pytestmark = pytest.mark.kubernetes

_MODEL = "llama-3.1-8b"
#: Streams that need all eight replicas, and those that need three.
_CROWD, _FEW = 48, 14
_WORKLOAD = "penstock-llama-3-1-8b-small"


@pytest.fixture
def scaled(plane: ControlPlane, beside: Played, namespace: str) -> Iterator[Installed]:
    """A release whose model has a tenth of the modelled hardware's speed, as in deploy/scaling.yaml."""
    release = Installed(plane, namespace, _MODEL)
    yield release
    release.helm("uninstall", release.name, "--ignore-not-found")


def _values(*pools: Object, **scaling: Any) -> Object:
    model = {"name": _MODEL, "tokenizer": "mistral-tekken", "context": 32768}
    model["routing"] = {"policy": "auto", "targets": {"ttft_ms": 1000, "tpot_ms": 60}}
    model["scaling"] = {"down_seconds": 5, **scaling}
    return values(*pools, config={"models": [model]}, controller={"replicas": 2, "resources": SMALL})


def _pool(by: str, name: str = "small", **more: Any) -> Object:
    size = {"by": by, "min": 1, "max": 8, "pricePerHour": 2.5, "startupSeconds": 5} | more.pop("scaling", {})
    # So few sequences at once that a crowd of a test needs all eight.
    speed = ["--profile", _MODEL, "--speed", "0.1", "--slots", "6"]
    return pool(name, model=_MODEL, shape={"tp": 1}, args=speed, drainSeconds=5, scaling=size, **more)


def _ready_replicas(installed: Installed) -> int:
    return sum(map(is_ready, installed.pods("replica")))


def _there_and_back(scaled: Installed, key: str) -> str:
    """A crowd comes and goes; how long the pool took both times."""
    begun = time.monotonic()
    with Streams(scaled.address(), key, _CROWD, model=_MODEL) as crowd:
        wait_until(lambda: _ready_replicas(scaled) == 8, 240, "eight replicas")
        up = time.monotonic() - begun
    with Streams(scaled.address(), key, 1, model=_MODEL) as few:
        down = wait_until(lambda: len(scaled.pods("replica")) == 1, 240, "one replica")
    assert crowd.broken + few.broken == []
    return f"1 -> 8 in {up:.0f} s under {_CROWD} streams, 8 -> 1 in {down:.0f} s; {crowd.figures()}"


def test_the_controller_scales_a_pool(scaled: Installed, figures: Callable[[str], None]) -> None:
    scaled.install(_values(_pool("penstock")))
    figures(_there_and_back(scaled, scaled.serving()))


def test_an_autoscaler_scales_a_pool_by_our_metric(
    plane: ControlPlane, scaled: Installed, figures: Callable[[str], None]
) -> None:
    scaled.install(_values(_pool("hpa")))
    with metrics_adapter(plane, lambda _: scaled.scrape()):
        figures(_there_and_back(scaled, scaled.serving()))


def test_the_leader_is_killed_during_a_scale_up(
    plane: ControlPlane, scaled: Installed, figures: Callable[[str], None]
) -> None:
    scaled.install(_values(_pool("penstock")))
    key = scaled.serving()
    most = 0

    def grown() -> bool:
        nonlocal most
        most = max(most, len(scaled.pods("replica")))
        return _ready_replicas(scaled) == 8

    with Streams(scaled.address(), key, _CROWD, model=_MODEL) as crowd:
        begun = time.monotonic()
        wait_until(lambda: len(scaled.pods("replica")) > 1, 120, "a scale-up")
        leader = _leader(scaled)
        plane.api.delete(f"/api/v1/namespaces/{scaled.namespace}/pods/{leader}", gracePeriodSeconds="0")
        wait_until(grown, 240, "eight replicas")
        took = time.monotonic() - begun
        assert _leader(scaled) != leader
    assert crowd.broken == []
    assert most == 8, "nothing was ordered twice"
    figures(f"1 -> 8 in {took:.0f} s under {_CROWD} streams, never more than {most} pods; {crowd.figures()}")


def _leader(scaled: Installed) -> str:
    """The pod of the controller that acts; its name is a part of the controller's."""
    name = scaled.admin("GET", "/admin/scaling")["controller"]["name"]
    [found] = [one for pod in scaled.pods("controller") if (one := pod["metadata"]["name"]) in name]
    return str(found)


def test_a_shape_without_room_is_replaced_by_the_next_cheapest(
    scaled: Installed, figures: Callable[[str], None]
) -> None:
    nowhere = {"nodeSelector": {"no-such": "node"}, "replicas": 0}
    cheap = _pool("penstock", "cheap", scaling={"min": 0, "pricePerHour": 1.0}, **nowhere)
    dear = _pool("penstock", scaling={"min": 1, "max": 4, "pricePerHour": 5.0})
    scaled.install(_values(cheap, dear))
    key = scaled.serving()
    with Streams(scaled.address(), key, _FEW, model=_MODEL) as crowd:
        tried = wait_until(lambda: _of(scaled, "cheap"), 120, "the cheap pool is tried")
        given_up = wait_until(lambda: "didn't match" in _problem(scaled, "cheap"), 120, "the scheduler's words")
        assert len(_of(scaled, "small")) == 1, "the dear one is not asked for what the cheap one may give"
        grown = wait_until(lambda: sum(map(is_ready, _of(scaled, "small"))) > 1, 240, "the dear pool grows")
    assert crowd.broken == []
    seconds = f"tried after {tried:.0f} s, given up {given_up:.0f} s later, a dearer replica ready {grown:.0f} s later"
    figures(f"{seconds}; {crowd.figures()}")


def _problem(scaled: Installed, name: str) -> str:
    [model] = scaled.admin("GET", "/admin/scaling")["models"]
    [found] = [one["problem"] for one in model["pools"] if one["name"] == name]
    return str(found)


def _of(scaled: Installed, name: str) -> list[Object]:
    return scaled.pods("replica", **{"penstock/pool": name})
