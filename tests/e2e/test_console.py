"""The console in a real browser, at a real gateway."""

import json
import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from gateway.admin.live.live_snapshot import scaling_live
from gateway.scaling.status import ScalingStatus
from tests.e2e.conftest import running
from tests.e2e.console_page import HOSTILE, Console, needs_chromium
from tests.e2e.raw import ask, chat
from tests.e2e.stack import Stack, eventually
from tests.e2e.test_admin import admin, admin_key, up
from tests.gateway.admin.scaling_samples import NOW, at_zero, model, pool, progress, status

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def site() -> Iterator[Stack]:
    """Two replicas, of which tests drain some."""
    with running(replicas=2) as started:
        eventually(lambda: up(started), "the admin API is up")
        yield started


def test_the_key_is_asked_for_and_kept_in_this_tab_alone(console: Console) -> None:
    page = console.open()
    assert page.get_by_label("Key", exact=True).evaluate("element => element === document.activeElement")
    assert page.locator("#board").is_hidden()
    console.enter("wrong")
    page.get_by_text("The admin API does not take this key.").wait_for()
    assert page.evaluate("sessionStorage.length") == 0
    console.enter(f"  {admin_key(console.site)} ")
    page.wait_for_selector("#link[data-state=live]")
    assert page.locator("#gate").is_hidden()
    assert page.evaluate("localStorage.length + document.cookie.length") == 0
    page.reload()
    page.wait_for_selector("#link[data-state=live]")
    page.get_by_role("button", name="Forget key").click()
    assert page.locator("#board").is_hidden()
    assert page.evaluate("sessionStorage.length") == 0
    page.reload()
    page.get_by_label("Key", exact=True).wait_for()


def test_what_happens_is_shown(console: Console) -> None:
    page = console.live()
    page.get_by_text("No request has ended.").wait_for()
    for _ in range(5):
        assert ask(console.site, chat(max_tokens=5))[0] == 200
    assert ask(console.site, chat(model="nobody"))[0] == 404
    console.until("parseFloat(document.querySelector('.figure .value').textContent) > 0")
    for text in ("mixtral-8x7b", "2 of 2 replicas take requests", "model_not_found", "least predicted seconds"):
        page.get_by_text(text).first.wait_for()
    assert console.tile("narrow/0").locator(".state").inner_text() == "● ready"
    console.until("document.querySelector('.spark').getAttribute('d').length > 10")
    assert not page.locator("#problems li").count()


def test_a_replica_is_drained_and_resumed(console: Console) -> None:
    page, tile = console.live(), console.tile("narrow/0")
    page.get_by_role("button", name="Drain narrow/0 of mixtral-8x7b").click()
    page.get_by_role("dialog", name="Drain narrow/0?").wait_for()
    page.get_by_role("button", name="Cancel").click()
    assert page.get_by_role("dialog").count() == 0
    assert tile.locator(".state").inner_text() == "● ready"
    page.get_by_role("button", name="Drain narrow/0 of mixtral-8x7b").click()
    page.get_by_label("Grace in seconds").fill("7")
    page.get_by_role("button", name="Drain", exact=True).last.click()
    page.get_by_text("It is to be drained").wait_for()
    page.get_by_role("button", name="Close").click()
    tile.get_by_text("○ drained").wait_for()
    tile.get_by_text("admin-api:console").wait_for()
    (row, _) = json.loads(console.site.run("replicas", "list", "--json").stdout)
    assert (row["state"], row["drain"]["grace_seconds"], row["drain"]["actor"]) == ("drained", 7.0, "admin-api:console")
    page.get_by_role("button", name="Resume narrow/0 of mixtral-8x7b").click()
    page.get_by_role("button", name="Resume", exact=True).last.click()
    page.get_by_text("It is resumed").wait_for()
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Drain narrow/0 of mixtral-8x7b").wait_for()


def test_a_pool_is_drained_and_a_refusal_is_said(console: Console) -> None:
    page = console.live()
    page.get_by_role("button", name="Drain pool narrow of mixtral-8x7b").click()
    page.get_by_label("Grace in seconds").fill("")
    page.get_by_role("button", name="Drain", exact=True).last.click()
    page.get_by_text("That failed").wait_for()
    page.get_by_label("Grace in seconds").fill("1")
    page.get_by_role("button", name="Drain", exact=True).last.click()
    page.get_by_text("It is to be drained").wait_for()
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Resume pool narrow of mixtral-8x7b").click()
    page.get_by_role("button", name="Resume", exact=True).last.click()
    page.get_by_text("It is resumed").wait_for()
    page.get_by_role("button", name="Close").click()
    page.get_by_text("2 of 2 replicas take requests").wait_for()


def test_names_are_text(console: Console) -> None:
    live = json.loads(admin(console.site, "GET", "/admin/live?once=1")[2])
    row = live["models"][0]["pools"][0]["replicas"][0]
    error = {"time": live["time"], "id": HOSTILE, "outcome": HOSTILE, "code": HOSTILE, "detail": HOSTILE, "seconds": 1}
    error |= {"tenant": HOSTILE, "model": HOSTILE, "pool": HOSTILE, "replica": HOSTILE}
    live["problems"], live["errors"] = [HOSTILE], [error]
    live["routes"] = [error | {"policy": HOSTILE, "reason": HOSTILE, "ttft": 1, "cached": 0, "predicted": 0}]
    live["tenants"] = [live["tenants"][0] | {"name": HOSTILE, "tier": HOSTILE}]
    live["models"][0]["name"] = live["models"][0]["pools"][0]["name"] = HOSTILE
    row |= {"id": HOSTILE, "reason": HOSTILE, "version": HOSTILE, "address": HOSTILE, "state": HOSTILE}
    body = f"event: live\ndata: {json.dumps(live)}\n\n"
    console.page.route(
        "**/admin/live", lambda route: route.fulfill(status=200, content_type="text/event-stream", body=body)
    )
    page = console.open()
    console.enter("any")
    page.locator("#board").wait_for()
    assert page.locator(".tile .name").first.text_content() == HOSTILE
    assert page.locator(".tenants .name").text_content() == HOSTILE
    assert page.locator("#errors .detail").text_content() == HOSTILE
    page.get_by_role("button", name="Drain").first.click()
    assert HOSTILE in str(page.locator("#ask-title").text_content())
    page.keyboard.press("Escape")
    assert page.evaluate("window.ran") is None
    assert page.locator("main img, body script").count() == 0


def test_it_says_since_when_it_is_stale_and_comes_back(console: Console) -> None:
    page = console.live()
    (pid,) = console.site.admins
    os.kill(pid, signal.SIGSTOP)
    try:
        page.wait_for_selector("#link[data-state=stale]")
        assert re.fullmatch(r"Stale since \d\d:\d\d:\d\d", page.locator("#link-text").inner_text())
        assert page.locator("#board[data-stale]").count() == 1
    finally:
        os.kill(pid, signal.SIGKILL)
    page.wait_for_selector("#link[data-state=live]")
    assert page.locator("#board[data-stale]").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_it_fits(browser: Any, site: Stack, width: int, scheme: str) -> None:
    console = Console(browser, site, width, scheme)
    page = console.live()
    console.until("document.querySelectorAll('.tile').length === 2")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = """[...document.querySelectorAll('main *, header *')].filter(e => !e.closest('.scroll, .unseen') &&
      e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(e => e.className || e.tagName)"""
    assert page.evaluate(wide) == []
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(15, 21, 27)"
    assert dark == (scheme == "dark")
    console.close()


def test_the_keyboard_reaches_everything(console: Console) -> None:
    page = console.live()
    page.wait_for_selector(".tile button")
    assert page.evaluate("document.activeElement.id") == "main"
    name = "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
    for wanted in ("Drain pool narrow", "Drain narrow/0", "Drain narrow/1"):
        page.keyboard.press("Tab")
        assert page.evaluate(name) == f"{wanted} of mixtral-8x7b"
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Drain narrow/1?").wait_for()
    page.keyboard.press("Escape")
    assert page.evaluate(name) == "Drain narrow/1 of mixtral-8x7b", "the focus is back where it was"
    page.locator("#forget").focus()
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(name) == "Skip to the content"
    assert page.evaluate("[...document.querySelectorAll('button')].every(one => one.ariaLabel || one.textContent)")


def test_where_nothing_scales_nothing_of_it_is_shown(console: Console) -> None:
    page = console.live()
    page.wait_for_selector(".tile")
    assert page.locator("#scaling").is_hidden()


def scaling_event(site: Stack, found: ScalingStatus, now: float) -> str:
    """An event as the admin API would send it if this status were in its store."""
    live = json.loads(admin(site, "GET", "/admin/live?once=1")[2])
    scaling = msgspec.to_builtins(scaling_live(now, found))
    return f"event: live\ndata: {json.dumps(live | {'scaling': scaling})}\n\n"


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_what_scales_is_shown(browser: Any, site: Stack, width: int, scheme: str) -> None:
    console = Console(browser, site, width, scheme)
    named = msgspec.structs.replace(
        progress(8, "failed", problem=HOSTILE + " and so on" * 40), id="a-pool-with-a-long-name-" + "0af3" * 9
    )
    grows = model(pools=[pool(failed=[named])], budget_per_hour=20.0, fixed={"own": 2})
    body = scaling_event(site, status(models=[grows, at_zero()]), NOW)
    console.page.route(
        "**/admin/live", lambda route: route.fulfill(status=200, content_type="text/event-stream", body=body)
    )
    page = console.open()
    console.enter("any")
    page.locator("#scaling").wait_for()
    grown, zero = page.locator(".scaled").all()
    assert grown.locator(".cost").inner_text() == "$12.50 of $20.00 an hour"
    texts = (
        "2 ready of 5 wanted",
        "min 1, max 6",
        "the load needs 4",
        "needed by the load 4",
        "3 starting",
        "2 more without a launcher",
    )
    for text in texts:
        grown.get_by_text(text).first.wait_for()
    start = grown.locator(".start", has=page.get_by_text("small-5", exact=True))
    assert start.locator(".step").inner_text() == "warm up · 8 s"
    assert [mark.get_attribute("data-at") for mark in start.locator("i").all()] == ["done", "done", "done", "now"]
    assert page.evaluate(
        "[...document.querySelectorAll('.start .name')].every(one => one.scrollWidth <= one.clientWidth)"
    ), "names are whole"
    assert page.evaluate(
        "[...document.querySelectorAll('.start .why')].every(one => one.scrollHeight <= one.clientHeight)"
    ), "so are the reasons of failures"
    assert str(grown.locator(".start .why").last.text_content()).startswith(HOSTILE)
    assert "at zero" in zero.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("window.ran") is None
    console.close()


def test_a_controller_that_is_gone_is_said(console: Console) -> None:
    body = scaling_event(console.site, status(), NOW + 60.0)
    console.page.route(
        "**/admin/live", lambda route: route.fulfill(status=200, content_type="text/event-stream", body=body)
    )
    page = console.open()
    console.enter("any")
    page.get_by_text("no controller: nothing is started or stopped since").wait_for()
    assert page.locator("#scaling[data-old]").count() == 1


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (390, "light"), (1440, "light"), (1440, "dark")])
def test_host_groups_are_shown(browser: Any, site: Stack, width: int, scheme: str) -> None:
    console = Console(browser, site, width, scheme)

    live = json.loads(admin(site, "GET", "/admin/live?once=1")[2])
    wide, parked = live["models"][0]["pools"][0]["replicas"]
    place = {"name": "node-1", "gpus": 4, "first": 0, "last": 3, "change": 7}
    wide |= {
        "shape": {"tp": 4, "ep": 1, "pp": 1},
        "group": {**place, "gpu": 0, "state": "changing", "failure": f"no memory {HOSTILE}"},
    }
    parked |= {
        "state": "parked",
        "reason": "its GPU belongs to a wider replica of its host group",
        "share": 0.0,
        "group": {**place, "gpu": 1, "state": "parked", "failure": ""},
    }
    body = f"event: live\ndata: {json.dumps(live)}\n\n"
    console.page.route(
        "**/admin/live", lambda route: route.fulfill(status=200, content_type="text/event-stream", body=body)
    )
    page = console.open()
    console.enter("any")
    page.locator("#board").wait_for()
    page.get_by_text("tp4 on GPUs 0–3 of node-1, changing").wait_for()
    page.get_by_text("parked on GPUs 0–3 of node-1").wait_for()
    page.get_by_text("change 7 of its shape failed: no memory").wait_for()
    assert console.tile("narrow/1").locator(".state").inner_text() == "▪ parked"
    page.get_by_text("1 of 2 replicas take requests").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    console.close()
