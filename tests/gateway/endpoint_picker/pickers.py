"""A running picker for the tests, over real upstreams that a test lets answer its scrapes."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from gateway.config.load import load_config
from gateway.config.settings import Config
from gateway.endpoint_picker.picker_process import PickerProcess
from tests.ports import free_port
from tests.proxies import Proxy, proxy_to
from tests.upstreams import Upstream, plain, upstream


def vllm(running: int = 0, waiting: int = 0, used: float = 0.0) -> bytes:
    """A scrape of vLLM's metrics."""
    return plain(
        b"vllm:num_requests_running %d\nvllm:num_requests_waiting %d\nvllm:kv_cache_usage_perc %f\n"
        b'vllm:cache_config_info{block_size="16",num_gpu_blocks="10000"} 1\n' % (running, waiting, used),
        kind="text/plain",
    )


def picker_config(folder: Path, urls: Sequence[str], **sections: Any) -> Config:
    """A configuration of one model at these base URLs. `pool`, `model` and `epp` add to them; others are sections."""
    pool = {"name": "pool", "engine": "openai", "replicas": list(urls), **sections.pop("pool", {})}
    model = {"name": "m", "context": 100_000, "pools": [pool], **sections.pop("model", {})}
    epp = {"port": free_port(), "health_port": free_port(), "metrics_port": free_port(), **sections.pop("epp", {})}
    models = [model, *sections.pop("more_models", [])]
    folder.mkdir(exist_ok=True)
    path = folder / "penstock.yaml"
    path.write_text(yaml.safe_dump({"state": str(folder), "models": models, "epp": epp, **sections}))
    return load_config(path)


class Picker:
    """A picker's process in this one, a proxy of it, and its upstreams by `IP:PORT`."""

    def __init__(self, process: PickerProcess, proxy: Proxy, upstreams: dict[str, Upstream], config: Config) -> None:
        self.process = process
        self.proxy = proxy
        self.upstreams = upstreams
        self.config = config

    @property
    def model(self) -> Any:
        return self.process.models.all[0]

    def in_flight(self) -> dict[str, int]:
        """Requests that count at each endpoint, by `IP:PORT`, without zeros."""
        found = {}
        for id_, connection in self.model.fleet._connections.items():
            if connection.in_flight:
                found[self.model.endpoints[id_]] = connection.in_flight
        return found

    def nothing_is_left(self) -> None:
        """No request counts anywhere any more."""
        assert self.in_flight() == {}
        assert self.model.queue.waiting == 0
        assert not self.model.queue._promised and self.model.queue.unsent is None
        assert self.process.metrics.streams == 0
        assert self.process.held.bytes == 0


@asynccontextmanager
async def picker(folder: Path, endpoints: int = 2, **sections: Any) -> AsyncIterator[Picker]:
    """A picker over that many upstreams, all ready."""
    async with AsyncExitStack() as stack:
        upstreams = [await stack.enter_async_context(upstream()) for _ in range(endpoints)]
        for one in upstreams:
            one.pages["/metrics"] = vllm()
        config = picker_config(folder, [one.url for one in upstreams], **sections)
        process = PickerProcess(config)
        try:
            await process.start()
            await process.models.all[0].fleet.wait_ready(endpoints)
            proxy = await stack.enter_async_context(proxy_to(config.epp.port))
            by_address = {one.url.removeprefix("http://").partition("/")[0]: one for one in upstreams}
            yield Picker(process, proxy, by_address, config)
        finally:
            await process.aclose(0.0)
