from gateway.admin.metrics.metrics_page import read_shape_families
from gateway.admin.metrics.reshape_metrics import reshape_families
from gateway.reshaping.shape_records import ShapeRecords
from observability.exposition import exposition
from observability.metrics import reshape_declarations as declared
from observability.metrics.metric import Metric
from protos.errors import StoreUnavailable
from tests.gateway.reshaping.shapes import World, config_of, shapes_world
from tests.observability.metrics.parsing import parsed


class Page:
    """The metrics, as Prometheus reads them."""

    def __init__(self, text: str) -> None:
        self.kinds, self.series = parsed(text)

    def of(self, metric: Metric, *labels: str) -> float | None:
        return self.series.get((metric.name, frozenset(zip(metric.labels, labels, strict=True))))


async def page_of(world: World) -> Page:
    return Page(exposition(reshape_families(await world.records())))


async def test_a_change_of_a_group_is_counted(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        assert (await page_of(world)).of(declared.CONTROLLER_UP) == 0
        controller = world.controller()
        await world.round(controller)
        page = await page_of(world)
        assert page.of(declared.CONTROLLER_UP) == 1
        assert [page.of(declared.GROUP_REPLICAS, "m", "g", width) for width in "124"] == [4, 0, 0]
        world.wants(300_000)
        await world.until(controller, "done")
        page = await page_of(world)
        assert [page.of(declared.GROUP_REPLICAS, "m", "g", width) for width in "124"] == [0, 0, 1]
        assert (page.of(declared.CHANGES, "m", "done"), page.of(declared.CHANGES, "m", "failed")) == (1, 0)
        assert page.of(declared.CHANGE_SECONDS, "m") == 2.0
        assert page.of(declared.GROUP_BLOCKED, "m", "g") == 0
        await world.kill()
        world.now += 60.0
        page = await page_of(world)
        assert (page.of(declared.CONTROLLER_UP), page.of(declared.GROUP_BLOCKED, "m", "g")) == (0, None)
        assert page.of(declared.CHANGES, "m", "done") == 1


async def test_advice_has_a_series(store_url: str) -> None:
    async with shapes_world(store_url, config_of(mode="advise")) as world:
        controller = world.controller()
        await world.round(controller)
        assert (await page_of(world)).of(declared.ADVISED, "m") == 0
        world.wants(300_000)
        await world.round(controller)
        assert (await page_of(world)).of(declared.ADVISED, "m") == 1


async def test_without_the_store_nothing_is_said() -> None:
    async def read() -> ShapeRecords:
        raise StoreUnavailable("away")

    assert await read_shape_families(read) == []
    assert await read_shape_families(None) == []
