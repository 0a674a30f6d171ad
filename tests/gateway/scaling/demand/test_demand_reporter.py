"""Demand reports of one worker, read back from the store."""

from collections.abc import Callable

import pytest

from gateway.config.settings import Config
from gateway.scaling.demand.demand_reporter import DemandReporter
from gateway.scaling.demand.demand_reports import demand_reports
from protos.types import Work
from routing.contracts.policy import ReplicaView
from tests.gateway.reshaping import relaunched, shapes
from tests.gateway.scaling.test_demand import Fleet, Queue
from tests.stores import running


class WatchedFleet(Fleet):
    on_work: Callable[[ReplicaView, Work], None]
    on_left: Callable[[str], None]

    def __init__(self) -> None:
        super().__init__()
        self.on_work, self.on_left = lambda view, work: None, lambda replica_id: None
        self.narrow_tokens = 74_000

    def launch(self, narrow: int, wide: int) -> None:
        """All is known from the configuration."""


class Served:
    def __init__(self) -> None:
        self.fleet, self.admission_queue = WatchedFleet(), Queue()
        self.admission_queue.needs = [(100_000, 2.0), (50_000, 4.0), (2000, 6.0)]


@pytest.mark.parametrize(
    ("config", "long"),
    [(shapes.config_of(), [(100_000, 2.0), (50_000, 4.0)]), (relaunched.config_of(), [(100_000, 2.0)])],
    ids=["in place", "by a start"],
)
async def test_long_is_what_a_change_would_be_made_for(
    store_url: str, config: Config, long: list[tuple[int, float]]
) -> None:
    async with running(store_url) as store:
        await DemandReporter(store, config, "w", {"m": Served()}).report()
        (report,) = (await demand_reports(store)).reports
        assert report["m"].long_waits == long
