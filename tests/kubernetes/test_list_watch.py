"""A list that is watched at a real API server: what happens meanwhile is neither lost nor listed anew."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.kubernetes import list_watch
from gateway.kubernetes.api_server import ApiServer
from gateway.kubernetes.list_watch import ListWatch
from gateway.kubernetes.objects import ConfigMap
from gateway.kubernetes.resources import CONFIG_MAPS
from tests.kubernetes.control_plane import ControlPlane
from tests.loops import until

pytestmark = pytest.mark.kubernetes

_LABEL = "watched=yes"


class _Counted(ApiServer):
    """Counts what it is asked for."""

    lists = 0
    watches = 0

    async def list(self, *asked, **more):  # type: ignore[no-untyped-def]
        self.lists += 1
        return await super().list(*asked, **more)

    def watch(self, *asked, **more):  # type: ignore[no-untyped-def]
        self.watches += 1
        return super().watch(*asked, **more)


@asynccontextmanager
async def _followed(plane: ControlPlane, namespace: str) -> AsyncIterator[tuple[ListWatch[ConfigMap], _Counted]]:
    server = _Counted(str(plane.kubeconfig))
    watched = ListWatch(server, CONFIG_MAPS, namespace, _LABEL)
    task = asyncio.create_task(watched.follow(lambda: None))
    try:
        yield watched, server
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await server.aclose()


async def _make(plane: ControlPlane, namespace: str, name: str) -> None:
    meta = {"name": name, "namespace": namespace, "labels": {"watched": "yes"}}
    await asyncio.to_thread(plane.api.create, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})


async def test_watches_that_end_are_gone_on_with(
    plane: ControlPlane, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_watch, "WATCH_SECONDS", 2)
    async with _followed(plane, namespace) as (watched, server):
        await until(lambda: server.watches > 0)
        made = set()
        for number in itertools.count():
            await _make(plane, namespace, f"c-{number}")
            made.add(f"c-{number}")
            if server.watches > 4:
                break
            await asyncio.sleep(0.05)
        await until(lambda: watched.objects.keys() == made)
        assert server.lists == 1
        path = f"/api/v1/namespaces/{namespace}/configmaps/c-0"
        await asyncio.to_thread(plane.api.delete, path)
        await until(lambda: watched.objects.keys() == made - {"c-0"})


async def test_a_version_that_the_server_has_forgotten_is_listed_anew(plane: ControlPlane, namespace: str) -> None:
    await _make(plane, namespace, "a")
    server = _Counted(str(plane.kubeconfig))
    watched = ListWatch(server, CONFIG_MAPS, namespace, _LABEL)
    assert await watched.list()
    watched._version = "1"
    # From its start on it remembers what changes, and nothing from before. Not in a thread, with which it would end.
    plane.api_server.stop()
    plane.start_api_server()
    await _make(plane, namespace, "b")
    task = asyncio.create_task(watched.follow(lambda: None))
    await until(lambda: server.lists == 2)
    await until(lambda: watched.objects.keys() == {"a", "b"})
    await _make(plane, namespace, "c")
    await until(lambda: watched.objects.keys() == {"a", "b", "c"})
    assert watched.problem == ""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await server.aclose()


async def test_a_server_that_restarts_is_asked_for_what_came_after(plane: ControlPlane, namespace: str) -> None:
    await _make(plane, namespace, "a")
    async with _followed(plane, namespace) as (watched, server):
        await until(lambda: server.watches > 0 and "a" in watched.objects)
        plane.api_server.stop()
        await until(lambda: bool(watched.problem))
        assert watched.objects.keys() == {"a"}
        plane.start_api_server()
        await _make(plane, namespace, "b")
        await until(lambda: watched.objects.keys() == {"a", "b"})
        assert watched.problem == ""
