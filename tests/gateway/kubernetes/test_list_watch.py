import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gateway.kubernetes.api_server import ApiServer
from gateway.kubernetes.list_watch import FIRST_DELAY, LONGEST_DELAY, ListWatch
from gateway.kubernetes.objects import EndpointSlice
from gateway.kubernetes.resources import ENDPOINT_SLICES
from tests.loops import until
from tests.played_cluster import Object, PlayedCluster, played_cluster
from tests.upstreams import Caller, Heard, plain

LABEL = "kubernetes.io/service-name"


def piece(name: str, service: str = "s") -> Object:
    return {"metadata": {"name": name, "labels": {LABEL: service}}, "addressType": "IPv4", "endpoints": [], "ports": []}


class Pauses:
    """Stands in for waiting: each wait is noted, and lasts until the test says so."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.go = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        await self.go.wait()


@contextlib.asynccontextmanager
async def followed(
    cluster: PlayedCluster, pause: Pauses | None = None
) -> AsyncIterator[tuple[ListWatch[EndpointSlice], list[str]]]:
    """A list that is followed, and the names of its objects at each change."""
    server = ApiServer(str(cluster.kubeconfig))
    watched = ListWatch(
        *(server, ENDPOINT_SLICES, None, f"{LABEL}=s"),
        spread=lambda _, most: most,
        pause=asyncio.sleep if pause is None else pause,
    )
    told: list[str] = []
    task = asyncio.create_task(watched.follow(lambda: told.append(",".join(sorted(watched.objects)))))
    try:
        yield watched, told
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await server.aclose()


def watches(cluster: PlayedCluster) -> Callable[[int], bool]:
    return lambda count: cluster.heard.count("watch endpointslices") >= count


async def test_changes_are_told_as_they_come(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        cluster.put("endpointslices", piece("a"))
        cluster.put("endpointslices", piece("other", service="t"))
        async with followed(cluster) as (watched, told):
            await until(lambda: told == ["a"])
            cluster.put("endpointslices", piece("b"))
            await until(lambda: told == ["a", "a,b"])
            cluster.put("endpointslices", piece("other", service="t"))
            cluster.remove("endpointslices", "a")
            await until(lambda: told == ["a", "a,b", "b"])
            assert watched.problem == ""
    assert cluster.heard.count("list endpointslices") == 1


async def test_a_watch_that_was_cut_goes_on_from_where_it_was(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster, followed(cluster) as (_, told):
        await until(lambda: watches(cluster)(1))
        cluster.put("endpointslices", piece("a"))
        await until(lambda: told[-1:] == ["a"])
        cluster.cut()
        cluster.put("endpointslices", piece("b"))
        await until(lambda: told[-1] == "a,b")
        assert cluster.heard.count("list endpointslices") == 1
        # A bookmark is how far it is where nothing of its own has changed.
        cluster.bookmark()
        cluster.put("endpointslices", piece("c"))
        await until(lambda: told[-1] == "a,b,c")


async def test_an_object_that_cannot_be_read_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with played_cluster(tmp_path) as cluster:
        cluster.put("endpointslices", piece("a"))
        async with followed(cluster) as (watched, told):
            await until(lambda: watches(cluster)(1))
            cluster.put("endpointslices", piece("a") | {"endpoints": "nonsense"})
            cluster.put("endpointslices", piece("b"))
            await until(lambda: told[-1:] == ["a,b"])
            assert watched.objects["a"].endpoints == []
    # The watch went on, and nothing was listed anew for it.
    assert (cluster.heard.count("watch endpointslices"), cluster.heard.count("list endpointslices")) == (1, 1)
    assert sum("a stays as it was last known" in message for message in caplog.messages) == 1


async def test_what_has_happened_and_is_forgotten_is_listed_anew(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        cluster.put("endpointslices", piece("a"))
        async with followed(cluster) as (watched, _):
            await until(lambda: watches(cluster)(1))
            cluster.objects.clear()
            cluster.objects["endpointslices", "b"] = cluster.put("endpointslices", piece("b"))
            cluster.forget()
            cluster.cut()
            await until(lambda: list(watched.objects) == ["b"])
            assert cluster.heard.count("list endpointslices") == 2
            assert watched.problem == ""


async def test_while_the_server_is_away_the_last_known_list_stays(tmp_path: Path) -> None:
    pause = Pauses()
    async with played_cluster(tmp_path) as cluster:
        cluster.put("endpointslices", piece("a"))
        async with followed(cluster, pause) as (watched, _):
            await until(lambda: watches(cluster)(1))
            cluster.is_away = True
            cluster.cut()
            pause.go.set()
            await until(lambda: len(pause.asked) > 12)
            assert list(watched.objects) == ["a"]
            assert watched.problem.startswith("watch endpointslices.discovery.k8s.io: ")
            # Longer each time, up to a bound.
            assert pause.asked[0] == FIRST_DELAY
            assert sorted(pause.asked) == pause.asked
            assert pause.asked[-1] == LONGEST_DELAY
            pause.go.clear()
            cluster.put("endpointslices", piece("b"))
            cluster.is_away = False
            pause.go.set()
            await until(lambda: watched.problem == "")
            await until(lambda: sorted(watched.objects) == ["a", "b"])


async def test_a_role_that_lacks_something_is_named_by_verb_and_resource(tmp_path: Path) -> None:
    pause = Pauses()
    async with played_cluster(tmp_path) as cluster:
        cluster.lacks = {"list endpointslices"}
        async with followed(cluster, pause) as (watched, _):
            await until(lambda: bool(pause.asked))
            assert watched.problem.startswith("the role lacks the verb list on endpointslices.discovery.k8s.io: ")
            cluster.lacks = {"watch endpointslices"}
            cluster.put("endpointslices", piece("a"))
            pause.go.set()
            await until(lambda: watched.problem.startswith("the role lacks the verb watch on endpointslices"))
            assert list(watched.objects) == ["a"]
            cluster.lacks = set()
            await until(lambda: watched.problem == "")


async def test_a_watch_that_ends_all_the_time_is_not_begun_all_the_time(tmp_path: Path) -> None:
    pause = Pauses()
    async with played_cluster(tmp_path) as cluster, followed(cluster, pause) as (watched, _):
        await until(lambda: watches(cluster)(1))
        cluster.cut()
        await until(lambda: len(pause.asked) == 1)
        assert watched.problem == ""
        pause.go.set()


async def test_a_server_that_wants_to_be_left_alone_is(tmp_path: Path) -> None:
    pause = Pauses()

    async def busy(caller: Caller, heard: Heard) -> bool:
        await caller.say(plain(b"{}", "429 Too Many Requests", Retry_After="7"))
        return True

    async with played_cluster(tmp_path) as cluster:
        cluster._answer = busy  # type: ignore[assignment,method-assign]
        async with followed(cluster, pause):
            await until(lambda: pause.asked == [7.0])
