"""A model's endpoints: their caches as far as they are known, and the names that requests have."""

from collections.abc import Sequence
from pathlib import Path

from gateway.endpoint_picker.asked import asked_in
from gateway.endpoint_picker.picker import Picker as Picking
from gateway.endpoint_picker.picker_process import PickerProcess
from routing.rollouts.split import Split
from routing.transports.openai.picked_connection import BLOCK_TOKENS
from tests.gateway.endpoint_picker.pickers import Picker, picker, picker_config, vllm
from tests.loops import until
from tests.upstreams import plain, upstream

LONG = b'{"prompt": "%b"}' % (b"hello " * 5000)


def blocks(running: Picker) -> set[int]:
    """How many blocks of prefixes each endpoint is taken to have room for."""
    return {replica.most for replica in running.model.prefixes._replicas.values()}


def cached(running: Picker) -> int:
    prefix = running.model.dispatch_context.look_up(asked_in(LONG).prompt, "")
    return max(prefix.cached.values(), default=0)


async def test_an_endpoint_holds_as_much_as_its_cache_has_room_for(state_dir: Path) -> None:
    async with picker(state_dir, 1) as running:
        assert blocks(running) == {16 * 10_000 // BLOCK_TOKENS}
        (upstream,) = running.upstreams.values()
        upstream.pages["/metrics"] = plain(vllm().partition(b"\r\n\r\n")[2].replace(b"10000", b"400"))
        await until(lambda: blocks(running) == {16 * 400 // BLOCK_TOKENS})


async def test_what_comes_back_has_an_empty_cache(state_dir: Path) -> None:
    async with picker(state_dir, 1) as running:
        picked = await Picking().pick(running.model, asked_in(LONG), None, "")
        picked.flight.ends(200)
        assert cached(running) > 7000
        (upstream,) = running.upstreams.values()
        (connection,) = running.model.fleet._connections.values()
        healthy, upstream.health = upstream.health, plain(b"", status="503 Service Unavailable")
        connection._provider.doubt()
        await until(lambda: not running.model.ready)
        upstream.health = healthy
        connection._provider.doubt()
        await until(lambda: running.model.ready)
        assert cached(running) == 0
        running.nothing_is_left()


async def test_aliases_are_names_too(state_dir: Path) -> None:
    other = {
        "name": "n",
        "context": 9,
        "pools": [{"name": "p", "engine": "openai", "replicas": ["http://127.0.0.2:9"]}],
    }
    async with picker(state_dir, 1, model={"aliases": ["gpt"]}, more_models=[other]) as running:
        first, second = running.process.models.all
        find = running.process.models.find
        assert (find("m"), find("gpt"), find("n"), find("?")) == (first, first, second, None)
        assert find("") is first


async def test_an_only_model_has_all_names(state_dir: Path) -> None:
    async with picker(state_dir, 1) as running:
        assert running.process.models.find("an adapter") is running.model


async def test_proxies_are_sent_to_the_stable_version_alone(state_dir: Path) -> None:
    async with upstream() as old, upstream() as new:
        for one in (old, new):
            one.pages["/metrics"] = vllm()
        pools = [
            {"name": version, "version": version, "engine": "openai", "replicas": [one.url]}
            for version, one in (("v1", old), ("v2", new))
        ]
        process = PickerProcess(picker_config(state_dir, [], model={"pools": pools}))
        try:
            await process.start()
            (model,) = process.models.all
            await model.fleet.wait_ready(2)

            async def endpoints() -> Sequence[str]:
                picked = await Picking().pick(model, asked_in(LONG), None, "")
                picked.flight.ends(200)
                return picked.endpoints

            assert await endpoints() == [model.endpoints["v1/0"]]
            model.follow(Split(model="m", stable="v1", candidate="v2", share=0.9))
            assert await endpoints() == [model.endpoints["v1/0"]]
            model.follow(Split(model="m", stable="v2", configured="v1"))
            assert await endpoints() == [model.endpoints["v2/0"]]
            model.follow(Split(model="m", stable="v2", configured="v0"))
            assert await endpoints() == [model.endpoints["v1/0"]]
        finally:
            await process.aclose(0.0)
