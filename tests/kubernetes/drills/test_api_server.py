"""The API server is away, or cuts its watches, or has many pods to tell of: who is served does not notice."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from tests.kubernetes.api import Object, wait_until
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.drills.streams import Streams
from tests.kubernetes.installed import Installed, pool, values
from tests.kubernetes.manifests import container, deployment
from tests.kubernetes.nodes import Node, Played, is_ready

pytestmark = pytest.mark.kubernetes

_STREAMS = 32
_AWAY_SECONDS = 60.0


def _scale(plane: ControlPlane, installed: Installed, replicas: int) -> None:
    path = f"/apis/apps/v1/namespaces/{installed.namespace}/deployments/penstock-mixtral-8x7b-narrow/scale"
    plane.api.patch(path, {"spec": {"replicas": replicas}})


def _all_ready(installed: Installed, count: int) -> bool:
    return [is_ready(one) for one in installed.pods("replica")] == [True] * count


def _known(installed: Installed) -> list[set[str]]:
    """The replicas of each gateway pod, by their addresses."""
    return [installed.replicas_of(one) for one in installed.pods("gateway")]


def _knows_all(installed: Installed) -> bool:
    wanted = {one["status"]["podIP"] for one in installed.pods("replica")}
    return all(known == wanted for known in _known(installed))


def test_the_api_server_is_away_for_a_minute(
    plane: ControlPlane, installed: Installed, figures: Callable[[str], None]
) -> None:
    installed.install(values(pool(replicas=2)))
    key = installed.serving()
    before = _known(installed)
    gateways = installed.pods("gateway")
    with Streams(installed.address(), key, _STREAMS) as streams:
        wait_until(lambda: streams.open >= _STREAMS * 0.9)
        plane.api_server.stop()
        begun = time.monotonic()
        try:
            while time.monotonic() - begun < _AWAY_SECONDS:
                time.sleep(1.0)
            assert [installed.replicas_of(one) for one in gateways] == before
        finally:
            plane.start_api_server()
        _scale(plane, installed, 3)
        wait_until(lambda: _all_ready(installed, 3), 120)
        # The cluster's own controllers have to come back, too.
        told = wait_until(lambda: _tells_all(plane, installed))
        found = wait_until(lambda: _knows_all(installed))
    assert streams.broken == []
    figures(
        f"{_AWAY_SECONDS:.0f} s under {_STREAMS} streams: {streams.figures()}; "
        f"a replica that is ready afterwards is in the EndpointSlices {told:.1f} s later, and {found:.1f} s after that "
        "known to both gateways"
    )


def _tells_all(plane: ControlPlane, installed: Installed) -> bool:
    """Whether the EndpointSlices have all replicas."""
    wanted = {one["status"]["podIP"] for one in installed.pods("replica")}
    endpoints = [one for each in _slices(plane, installed) for one in each.get("endpoints") or []]
    return wanted == {address for one in endpoints if one["conditions"].get("ready") for address in one["addresses"]}


@contextmanager
def _cut_every_second(beside: Played) -> Iterator[list[float]]:
    cuts: list[float] = []
    stopping = threading.Event()

    def cut() -> None:
        while not stopping.wait(1.0):
            beside.cut_api()
            cuts.append(time.monotonic())

    thread = threading.Thread(target=cut, daemon=True)
    thread.start()
    try:
        yield cuts
    finally:
        stopping.set()
        thread.join()


def test_the_watch_is_cut_every_second(
    plane: ControlPlane, beside: Played, installed: Installed, figures: Callable[[str], None]
) -> None:
    installed.install(values(pool(replicas=2, drainSeconds=5)))
    key = installed.serving()
    found: list[float] = []
    with Streams(installed.address(), key, _STREAMS) as streams, _cut_every_second(beside) as cuts:
        wait_until(lambda: streams.open >= _STREAMS * 0.9)
        for count in (4, 2, 3):
            _scale(plane, installed, count)
            wait_until(partial(_all_ready, installed, count), 120)
            found.append(wait_until(lambda: _knows_all(installed)))
    assert streams.broken == []
    seconds = ", ".join(f"{one:.1f}" for one in found)
    figures(f"{len(cuts)} cuts under {_STREAMS} streams: {streams.figures()}; 2 -> 4 -> 2 -> 3 known after {seconds} s")


def test_two_hundred_pods(
    plane: ControlPlane, beside: Played, installed: Installed, figures: Callable[[str], None]
) -> None:
    """196 of them accept no connection, as pods of a broken image that has no probe."""
    taint = {"key": "herd", "effect": "NoSchedule"}
    with beside.guests(*(Node(f"herd-{number}", {"herd": "yes"}, (taint,)) for number in range(2))):
        _add_two_hundred(plane, installed, figures)


def _add_two_hundred(plane: ControlPlane, installed: Installed, figures: Callable[[str], None]) -> None:
    installed.install(values(pool(replicas=4)))
    key = installed.serving()
    labels = installed.pods("replica")[0]["metadata"]["labels"]
    dead = container("exec sleep infinity", ports=[{"name": "replica", "containerPort": 50051}])
    place = {"nodeSelector": {"herd": "yes"}, "tolerations": [{"key": "herd", "operator": "Exists"}]}
    herd = deployment(installed.namespace, "herd", 0, dead, terminationGracePeriodSeconds=0, **place)
    wanted = {name: value for name, value in labels.items() if name != "pod-template-hash"} | {"app": "herd"}
    herd["spec"]["template"]["metadata"]["labels"] = wanted
    plane.api.create(herd)
    path = f"/apis/apps/v1/namespaces/{installed.namespace}/deployments/herd/scale"
    with Streams(installed.address(), key, _STREAMS) as streams:
        wait_until(lambda: streams.open >= _STREAMS * 0.9)
        plane.api.patch(path, {"spec": {"replicas": 196}})
        ready = wait_until(lambda: _all_ready(installed, 200), 600)
        found = wait_until(lambda: _knows_all(installed), 60)
        slices = _slices(plane, installed)
        plane.api.patch(path, {"spec": {"replicas": 0}})
        wait_until(lambda: _all_ready(installed, 4), 300)
        gone = wait_until(lambda: _knows_all(installed), 60)
    assert streams.broken == []
    figures(
        f"196 pods more were ready after {ready:.0f} s, in {len(slices)} slices, and known {found:.1f} s later; once "
        f"they were gone, that was known after {gone:.1f} s; under {_STREAMS} streams: {streams.figures()}"
    )


def _slices(plane: ControlPlane, installed: Installed) -> list[Object]:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{installed.namespace}/endpointslices"
    return [one for one in plane.api.items(path) if one["metadata"]["name"].startswith("penstock-mixtral")]
