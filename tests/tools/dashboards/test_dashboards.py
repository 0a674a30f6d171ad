"""The dashboards' JSON: what Grafana's model asks for, and what makes a panel readable."""

import itertools
import re
from typing import Any

import pytest

from observability.metrics.declarations import METRICS
from tools.dashboards.dashboard import Dashboard
from tools.dashboards.dashboard_files import all_dashboards
from tools.dashboards.objectives import Objectives

DASHBOARDS = all_dashboards(Objectives())
OPTIONS = {
    "timeseries": {"legend", "tooltip"},
    "stat": {"graphMode", "colorMode", "justifyMode", "textMode", "wideLayout", "showPercentChange", "reduceOptions"},
    "heatmap": {"color", "showValue", "yAxis", "legend", "tooltip", "exemplars"},
    "table": {"frameIndex", "showHeader"},
    "bargauge": {"displayMode", "valueMode", "namePlacement", "showUnfilled", "sizing", "legend", "reduceOptions"},
    "state-timeline": {"showValue", "rowHeight", "legend", "tooltip"},
}


def panels(dashboard: Dashboard) -> list[dict[str, Any]]:
    return [panel for panel in dashboard.json()["panels"] if panel["type"] != "row"]


@pytest.fixture(params=DASHBOARDS, ids=lambda dashboard: str(dashboard.uid))
def dashboard(request: pytest.FixtureRequest) -> Dashboard:
    found: Dashboard = request.param
    return found


def test_there_are_all_and_each_has_its_own_address() -> None:
    names = {dashboard.uid.removeprefix("penstock-") for dashboard in DASHBOARDS}
    of_models = {"fleet", "latency", "routing", "replicas", "scaling", "rollouts", "slo"}
    assert names == of_models | {"tenants", "safety", "gateway"}
    assert len(DASHBOARDS) == len(names)


def test_every_metric_is_on_some_panel() -> None:
    shown = " ".join(query.expr for one in DASHBOARDS for panel in one.panels for query in panel.queries)
    left_out = {metric.name for metric in METRICS if not re.search(rf"\b{metric.name}(_bucket|_sum|_count)?\b", shown)}
    assert left_out == set()


def test_the_whole_is_as_grafana_has_it(dashboard: Dashboard) -> None:
    made = dashboard.json()
    assert made["schemaVersion"] == 41
    assert re.fullmatch(r"[a-z-]{1,40}", made["uid"])
    assert made["tags"] == ["penstock"] == made["links"][0]["tags"]
    (first, *others) = made["templating"]["list"]
    assert (first["name"], first["type"], first["query"]) == ("datasource", "datasource", "prometheus")
    for variable in others:
        assert variable["definition"] == variable["query"]["query"]
        assert (variable["includeAll"], variable["allValue"], variable["multi"]) == (True, ".*", True)


def test_panels_lie_side_by_side_and_not_on_one_another(dashboard: Dashboard) -> None:
    made = dashboard.json()["panels"]
    assert sorted(panel["id"] for panel in made) == list(range(1, len(made) + 1))
    taken: set[tuple[int, int]] = set()
    for panel in made:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = set(
            itertools.product(range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"]))
        )
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({cell[1] for cell in taken}) == max(cell[1] for cell in taken) + 1, "no line is empty"


def test_lines_of_panels_fill_the_width(dashboard: Dashboard) -> None:
    widths: dict[int, int] = {}
    for panel in dashboard.json()["panels"]:
        place = panel["gridPos"]
        widths[place["y"]] = widths.get(place["y"], 0) + place["w"]
    assert set(widths.values()) == {24}


def test_each_panel_can_be_read(dashboard: Dashboard) -> None:
    titles = [panel["title"] for panel in panels(dashboard)]
    for panel in panels(dashboard):
        assert 20 <= len(panel["description"]) <= 400, panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults.get("unit") or panel["type"] in ("heatmap", "table", "state-timeline"), panel["title"]
        assert OPTIONS[panel["type"]] <= set(panel["options"]), panel["title"]
        if "thresholds" in defaults:
            values = [step["value"] for step in defaults["thresholds"]["steps"]]
            assert values[0] is None
            assert values[1:] == sorted(values[1:])
    assert dashboard.uid == "penstock-slo" or len(set(titles)) == len(titles)


def test_each_query_says_what_its_series_are(dashboard: Dashboard) -> None:
    defined = {"datasource", *(variable.label for variable in dashboard.variables)}
    for panel in panels(dashboard):
        assert panel["targets"], panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        legends = [target["legendFormat"] for target in panel["targets"]]
        assert len(set(legends)) == len(legends), panel["title"]
        for target in panel["targets"]:
            assert set(re.findall(r"\$(?!__)(\w+)", target["expr"])) <= defined, panel["title"]
            assert set(re.findall(r"\$(__\w+)", target["expr"])) <= {"__rate_interval", "__range"}
            grouped = {
                name.strip() for names in re.findall(r"by \(([^)]*)\)", target["expr"]) for name in names.split(",")
            }
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= grouped | {"model"}, panel["title"]
            assert target["instant"] != target["range"]


def test_overrides_are_of_fields_that_can_come(dashboard: Dashboard) -> None:
    for panel in panels(dashboard):
        if panel["type"] != "table":
            continue
        renamed = set(panel["transformations"][-1]["options"]["renameByName"].values())
        overridden = {override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]}
        assert overridden <= renamed, panel["title"]
        assert panel["options"]["sortBy"][0]["displayName"] in renamed, panel["title"]


def test_links_lead_to_dashboards_that_are_there() -> None:
    text = str([dashboard.json() for dashboard in DASHBOARDS])
    assert set(re.findall(r"/d/([\w-]+)", text)) <= {dashboard.uid for dashboard in DASHBOARDS}


def test_other_objectives_are_shown() -> None:
    text = str([one.json() for one in all_dashboards(Objectives(0.99, 1.5, 0.9))])
    assert "more than 1.5 s" in text
    assert "at most 1 %" in text
    assert 'le=~"' not in text, "what is recorded stands in the rules"
