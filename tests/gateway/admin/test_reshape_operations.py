"""Shapes over HTTP."""

import time

from tests.gateway.admin.bench import bench_of
from tests.gateway.reshaping.shapes import config_of, shapes_world

PATH = "/admin/reshape"


async def test_groups_are_shown_and_changed(store_url: str) -> None:
    async with shapes_world(store_url, config_of(mode="advise")) as world, bench_of(store_url, world.config) as bench:
        shown = (await bench.ask("GET", PATH)).json
        assert (shown["age_seconds"], shown["controller"], shown["models"][0]["groups"]) == (None, "", [])
        controller = world.controller()
        world.now = time.time()
        await world.round(controller, seconds=0.0)
        (model,) = (await bench.ask("GET", PATH)).json["models"]
        (group,) = model["groups"]
        assert (group["shape"], group["held"], len(group["members"])) == ([1, 1, 1, 1], "", 4)
        body = {"model": "m", "group": "g", "shape": [4]}
        assert (await bench.ask("POST", f"{PATH}/plan", body=body)).json["refused"] == ""
        choices = (await bench.get(f"{PATH}/choices", model="m", group="g"))["plans"]
        assert [(one["after"], one["refused"]) for one in choices][:2] == [([4], ""), ([2, 2], "")]
        await bench.refused(404, "group", "GET", f"{PATH}/choices", query={"model": "m", "group": "h"})
        await bench.refused(400, "group", "GET", f"{PATH}/choices", query={"model": "m"})
        order = (await bench.ask("POST", f"{PATH}/apply", body=body)).json
        assert (order["taken"], order["plan"]["after"]) == (False, [4])
        await world.until(controller, "done")
        phases = [event["phase"] for event in (await bench.ask("GET", f"{PATH}/history")).json["events"]]
        assert phases == ["preparing", "transforming", "done"]
        for wrong, status, param in (
            ({"model": "x", "group": "g", "shape": [4]}, 404, "model"),
            ({"model": "m", "group": "g", "shape": [3]}, 400, "shape"),
            ({"model": "m", "group": "g", "shape": []}, 400, "shape"),
        ):
            answer = await bench.ask("POST", f"{PATH}/apply", body=wrong)
            assert (answer.status, answer.json["error"]["param"]) == (status, param), wrong
