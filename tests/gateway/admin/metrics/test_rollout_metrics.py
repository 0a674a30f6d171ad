from collections import Counter

import msgspec

from gateway.admin.metrics.metrics_page import read_rollout_families
from gateway.admin.metrics.rollout_metrics import read_rollouts, rollout_families
from gateway.rollouts.shadow.shadow_sums import add_sums
from observability.exposition import exposition
from observability.metrics import controller_declarations as declared
from observability.metrics.metric import Metric
from protos.errors import StoreUnavailable
from routing.rollouts.facts import Compared
from routing.rollouts.rollout import ROLLBACKS
from tests.gateway.rollouts.test_controller import TO_V2, begin
from tests.gateway.rollouts.worlds import World, rollout_world
from tests.observability.metrics.parsing import parsed
from tests.stores import running


async def page_of(world: World) -> "Page":
    return Page(world, exposition(rollout_families(await world.records())))


class Page:
    """The metrics, as Prometheus reads them."""

    def __init__(self, world: World, text: str) -> None:
        self.kinds, self.series = parsed(text)

    def of(self, metric: Metric, *labels: str) -> float | None:
        return self.series.get((metric.name, frozenset(zip(metric.labels, labels, strict=True))))


async def test_a_rollout_from_its_first_stage_to_its_rollback(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        page = await page_of(world)
        assert (page.of(declared.ROLLOUT_CONTROLLER_UP), page.of(declared.ROLLOUT_SHARE, "m")) == (0, None)
        one = world.controller()
        await begin(world)
        await world.until(one, "shifting")
        await world.round(one)
        page = await page_of(world)
        assert page.of(declared.ROLLOUT_CONTROLLER_UP) == 1
        assert page.of(declared.ROLLOUT_CURRENT, "m", "v1", "v2", "canary") == 1
        phases = {phase: page.of(declared.ROLLOUT_PHASE, "m", phase) for phase in ("preparing", "shifting", "done")}
        assert phases == {"preparing": 0, "shifting": 1, "done": 0}
        assert (page.of(declared.ROLLOUT_SHARE, "m"), page.of(declared.ROLLOUT_STAGE, "m")) == (0.1, 1)
        assert page.of(declared.ROLLOUT_REQUESTS, "m") == 50
        assert page.of(declared.ROLLOUT_VERDICT, "m", "as_good") == 1
        # An alert on an increase needs the value before it.
        assert {page.of(declared.ROLLOUTS, "m", "rolled_back", cause) for cause in ROLLBACKS} == {0}
        world.compared = Compared(kind="worse", reason="as told")
        await world.until(one, "rolled_back")
        page = await page_of(world)
        assert page.of(declared.ROLLOUTS, "m", "rolled_back", "worse") == 1
        assert page.of(declared.ROLLOUTS, "m", "promoted", "-") == 0
        assert page.kinds[declared.ROLLOUTS.name] == "counter"


async def test_copies_by_what_came_of_them(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world, msgspec.structs.replace(TO_V2, plan="shadow"))
        rollout = await world.until(one, "shadowing")
        sums = Counter({"compared": 7, "same": 3, "alike": 5, "failed:candidate": 2, "left_out:bound": 4})
        async with running(store_url) as store:
            await add_sums(store, "m", rollout.epoch, sums, [])
            page = Page(world, exposition(rollout_families(*await read_rollouts(store))))
        outcomes = ("same", "alike", "different", "failed", "bound", "full", "away", "busy")
        assert [page.of(declared.ROLLOUT_COPIES, "m", outcome) for outcome in outcomes] == [3, 2, 2, 2, 4, 0, 0, 0]


async def test_without_the_store_there_are_no_rollouts() -> None:
    async def fails() -> None:
        raise StoreUnavailable("away")

    assert await read_rollout_families(fails) == []  # type: ignore[arg-type]
    assert await read_rollout_families(None) == []
