"""Rollouts in the console, in a real browser."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from gateway.admin.live.view import RolloutLive
from routing.rollouts.settings import Gates
from routing.rollouts.settings import Rollout as Settings
from tests.e2e.conftest import running
from tests.e2e.console_page import HOSTILE, Console, needs_chromium
from tests.e2e.stack import Stack, eventually
from tests.e2e.test_admin import admin, up
from tests.gateway.admin import rollout_samples as rollouts

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def site() -> Iterator[Stack]:
    with running(replicas=2) as started:
        eventually(lambda: up(started), "the admin API is up")
        yield started


def rollout_event(site: Stack, found: list[RolloutLive], now: float) -> str:
    """An event as the admin API would send it if these rollouts were in its store."""
    live = json.loads(admin(site, "GET", "/admin/live?once=1")[2])
    return f"event: live\ndata: {json.dumps(live | {'time': now, 'rollouts': msgspec.to_builtins(found)})}\n\n"


def show_rollout(console: Console, found: list[RolloutLive], now: float, path: str = "") -> Any:
    """Open the console over these rollouts."""
    body = rollout_event(console.site, found, now)
    earlier = [
        rollouts.event(1, 0, phase="rolling_back", rollout="old", candidate="v0", cause="worse", reason="v0 was slow"),
        rollouts.event(2, 5, phase="rolled_back", rollout="old", candidate="v0", cause="drained", reason="v0 is empty"),
    ]
    answers = {
        "series": msgspec.json.encode({"series": [rollouts.series()]}),
        "history": msgspec.json.encode({"events": earlier}),
    }
    console.page.route(
        "**/admin/live", lambda route: route.fulfill(status=200, content_type="text/event-stream", body=body)
    )
    console.page.route(
        re.compile("/admin/rollouts/(series|history)"),
        lambda route: route.fulfill(
            status=200, content_type="application/json", body=answers[route.request.url.split("/")[-1].split("?")[0]]
        ),
    )
    console.page.goto(f"http://127.0.0.1:{console.site.admin_port}/console{path}")
    console.enter("any")
    return console.page


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_a_rollout_has_a_page(browser: Any, site: Stack, width: int, scheme: str) -> None:
    console = Console(browser, site, width, scheme)
    waits = rollouts.rollout(problem="12 s of 60 s are left")
    page = show_rollout(console, rollouts.live_rollouts(waits), rollouts.STARTED + 185)
    page.get_by_text("no rollout so far").wait_for()
    page.get_by_role("link", name="Details of the rollout of mixtral-8x7b").click()
    page.get_by_role("heading", name="mixtral-8x7b", level=2).wait_for()
    assert page.locator("#fleet").is_hidden()
    assert page.locator("#rollout-stages [aria-current=step]").inner_text().split("\n")[:2] == ["●", "50 %"]
    assert page.locator("#rollout-stages [data-state=done]").count() == 4
    assert page.locator("#rollout-why").inner_text() == "Waits: 12 s of 60 s are left"
    console.until("document.querySelectorAll('#rollout-charts .line-candidate[d*=L]').length === 4")
    first = page.locator("#rollout-charts .line-candidate").nth(1).get_attribute("d")
    assert all("L" in run or "h" in run for run in first.split("M")[1:]), "each value is seen, alone or not"
    worse = page.locator("#rollout-measures tr[data-health=bad]")
    assert "first token, prompts 1,024 to 4,096" in worse.inner_text()
    assert "1.31 (1.18 to 1.46)" in worse.inner_text()
    page.get_by_text("v0: rolled back").wait_for()
    page.get_by_text("v0 was slow").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("link", name="All models").click()
    page.locator("#rollout-cards").wait_for()
    assert page.locator("#rollout-page").is_hidden()
    console.close()


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_many_stages_are_whole(browser: Any, site: Stack, width: int) -> None:
    console = Console(browser, site, width)
    stages = tuple(round(0.05 * number, 2) for number in range(1, 21))
    settings = Settings(model="mixtral-8x7b", to="v2", plan="gates", stages=stages, gates=Gates(golden="golden.jsonl"))
    page = show_rollout(console, rollouts.live_rollouts(rollouts.rollout(settings=settings)), rollouts.STARTED + 185)
    cut = """[...document.querySelectorAll('.stages *')].filter(e => e.getClientRects().length &&
      e.getBoundingClientRect().right > e.closest('li').getBoundingClientRect().right + 1).map(e => e.textContent)"""
    page.locator(".rollout-card .stages li", has_text="100 %").wait_for()
    assert page.evaluate(cut) == [], "on the card"
    page.get_by_role("link", name="Details of the rollout").click()
    page.locator("#rollout-stages li", has_text="100 %").wait_for()
    assert page.evaluate(cut) == [], "on the page"
    console.close()


def test_a_rollback_says_when_and_why(console: Console) -> None:
    back = rollouts.rollout(rollouts.BACK, ended=rollouts.STARTED + 206)
    page = show_rollout(
        console, rollouts.live_rollouts(back, verdict=None), rollouts.STARTED + 999, "#rollout/mixtral-8x7b"
    )
    page.get_by_text("Rolled back at").wait_for()
    assert re.match(r"Rolled back at .*: first tokens of prompts", page.locator("#rollout-why").inner_text())
    assert page.locator("#rollout-stages [data-state=bad]").inner_text().split("\n")[1] == "50 %"
    assert page.locator("#rollout-charts .mark-bad").count() > 0
    assert page.locator(".orders button:visible").count() == 0
    tag = page.locator("#rollout-state")
    assert (tag.is_visible(), tag.inner_text()) == (True, "rolled back")
    assert tag.evaluate("tag => getComputedStyle(tag).color") != page.locator("#rollout-facts").evaluate(
        "facts => getComputedStyle(facts).color"
    )
    page.get_by_text("worse: first tokens are slower").wait_for()
    page.get_by_role("link", name="All models").click()
    assert page.locator(".why-now").first.inner_text().startswith("first tokens of prompts")
    assert page.locator(".rollout-card .tag").first.is_visible()


def test_the_page_of_a_model_without_a_rollout_has_nothing_of_another_one(console: Console) -> None:
    first = rollouts.rollout()
    page = show_rollout(console, rollouts.live_rollouts(first, verdict=None), rollouts.STARTED, "#rollout/mixtral-8x7b")
    page.get_by_text("cli:root").wait_for()
    assert page.locator("#rollout-measures-note").is_visible() == page.locator("#rollout-measures-scroll").is_visible()
    page.evaluate("scrollTo(0, 500)")
    page.evaluate("location.hash = '#rollout/small'")
    page.get_by_text("This model has had no rollout.").wait_for()
    assert page.locator("#rollout-page .heading").first.inner_text().strip() == "small"
    assert page.evaluate("scrollY") == 0


def test_a_promoted_candidate_is_shown_with_everything(console: Console) -> None:
    done = rollouts.rollout(rollouts.DONE, ended=rollouts.STARTED + 226, promoted=True)
    page = show_rollout(
        console, rollouts.live_rollouts(done, verdict=None), rollouts.STARTED + 999, "#rollout/mixtral-8x7b"
    )
    page.get_by_text("v2 is the stable version").first.wait_for()
    assert page.locator("#rollout-why").inner_text() == "v2 is the stable version"
    assert re.search(r"50 % · [\d:]+ 100 %$", page.locator("#rollout-charts .chart-said").first.inner_text())
    assert page.locator("#rollout-charts .line-share").first.get_attribute("d").endswith("V2.00H100.00")
    assert page.locator("#rollout-charts .mark-bad").count() == 0


def test_a_rollout_is_ordered_and_a_refusal_is_said(console: Console) -> None:
    named = rollouts.rollout(reason=HOSTILE, candidate=HOSTILE)
    page = show_rollout(console, rollouts.live_rollouts(named), rollouts.STARTED + 185, "#rollout/mixtral-8x7b")
    ordered: list[tuple[str, str]] = []

    def take(route: Any) -> None:
        ordered.append((route.request.url.split("/admin/")[1], route.request.post_data))
        route.fulfill(status=200, content_type="application/json", body="{}")

    page.route("**/admin/rollouts/pause", take)
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog", name="Pause the rollout of mixtral-8x7b?").wait_for()
    page.get_by_role("button", name="Pause", exact=True).last.click()
    page.get_by_text("It is ordered").wait_for()
    assert ordered == [("rollouts/pause", '{"model":"mixtral-8x7b"}')]
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Abort").click()
    page.get_by_role("button", name="Abort", exact=True).last.click()
    page.get_by_text("That failed").wait_for()
    assert HOSTILE in str(page.locator("#rollout-versions").text_content())
    assert page.evaluate("window.ran") is None
