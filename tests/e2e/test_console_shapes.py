"""Shapes in the console, in a real browser."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.reshaping.change import Event
from gateway.reshaping.reshape_registry import ShapePlan, ShapesView
from tests.e2e.conftest import running
from tests.e2e.console_page import HOSTILE, Console, needs_chromium
from tests.e2e.stack import Stack, eventually
from tests.e2e.test_admin import admin, up
from tests.e2e.test_shapes import Site as ReshapedSite
from tests.e2e.test_shapes import members as members
from tests.gateway.admin import shape_samples as shapes
from tests.harness import MODEL
from tests.reshaping import GROUP, MemberProcess

pytestmark = needs_chromium
PAGE = f"#shapes/{shapes.MODEL}"


@pytest.fixture(scope="module")
def site() -> Iterator[Stack]:
    with running(replicas=2) as started:
        eventually(lambda: up(started), "the admin API is up")
        yield started


def answer(console: Console, path: str, body: Any, status: int = 200) -> None:
    """Have a path of the admin API answer so."""
    console.page.route(
        re.compile(path),
        lambda route: route.fulfill(status=status, content_type="application/json", body=msgspec.json.encode(body)),
    )


def show_shapes(
    console: Console, view: ShapesView | None, path: str = PAGE, events: Sequence[Event] = shapes.EVENTS
) -> Any:
    """Open the console over what a controller of shapes might tell; None: nobody knows."""
    live = json.loads(admin(console.site, "GET", "/admin/live?once=1")[2])
    live |= {"time": shapes.NOW, "shapes": msgspec.to_builtins(view)}
    body = f"event: live\ndata: {json.dumps(live)}\n\n"
    console.page.route(
        "**/admin/live", lambda route: route.fulfill(status=200, content_type="text/event-stream", body=body)
    )
    answer(console, "/admin/reshape/history", {"events": events})
    console.page.goto(f"http://127.0.0.1:{console.site.admin_port}/console{path}")
    console.enter("any")
    console.page.locator("#board").wait_for()
    return console.page


def plan(*after: int, refused: str = "") -> ShapePlan:
    return ShapePlan(
        model=shapes.MODEL, group="host-a", before=(1, 1, 1, 1), after=after, refused=refused, gpu_seconds=1.2
    )


def test_where_no_model_changes_its_shapes_nothing_of_it_is_shown(console: Console) -> None:
    page = console.live()
    page.wait_for_selector(".tile")
    assert page.locator("#shapes").is_hidden()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_a_change_under_way_has_its_steps_and_what_it_waits_for(
    browser: Any, site: Stack, width: int, scheme: str
) -> None:
    console = Console(browser, site, width, scheme)
    changing = shapes.group(
        change=shapes.change("transforming"),
        held="change 4 is transforming",
        states=("prepared", "serving", "serving", None),
    )
    rests = shapes.group("host-b", (2, 1, 1), rests_until=shapes.NOW + 20)
    events = [*shapes.EVENTS, shapes.event(588, "preparing", change=4), shapes.event(592, "transforming", change=4)]
    page = show_shapes(console, shapes.view(shapes.model(changing, rests)), "", events)
    page.get_by_text("2 host groups · 1 changing").first.wait_for()
    page.get_by_role("link", name=f"Details of the shapes of {shapes.MODEL}").click()
    page.get_by_role("heading", name=shapes.MODEL, level=2).wait_for()
    assert page.locator("#fleet").is_hidden()
    first, second = page.locator(".group").all()
    page.locator(".group .stages time", has_text=":").first.wait_for()
    assert first.locator(".stages [data-state=done]").inner_text().startswith("✓\nprepare")
    assert first.locator("[aria-current=step]").inner_text().startswith("●\nchange")
    said = first.inner_text()
    assert "by the policy: a request of 120000 tokens waits for a TP4 replica." in said
    assert "Its replicas change while they serve for 8\u00a0s, 12\u00a0s in all." in said
    assert "It waits for grpc://a0 (prepared), grpc://a3 (not heard)." in said
    assert "Not changed now" not in said
    strip = first.locator(".strip").get_attribute("aria-label")
    assert strip == "TP1 on GPU 0, TP1 on GPU 1, TP1 on GPU 2, none on GPU 3"
    assert second.locator(".strip").get_attribute("aria-label") == "TP2 on GPUs 0–1, TP1 on GPU 2, TP1 on GPU 3"
    assert re.search(r"Cools down until [\d:]+, for 20\u00a0s", second.inner_text())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("link", name="All models").click()
    page.locator("#shapes-cards").wait_for()
    assert page.locator("#shapes-page").is_hidden()
    console.close()


def test_a_change_that_is_taken_back_says_why(console: Console) -> None:
    back = shapes.change(
        "aborting", failure="grpc://a2 does not answer", actor="cli:root", reason="cli:root has ordered it"
    )
    group = shapes.group(change=back, held="change 4 is aborting")
    events = [shapes.event(588, "preparing", change=4), shapes.event(592, "aborting", change=4, reason=back.failure)]
    page = show_shapes(console, shapes.view(shapes.model(group)), events=events)
    page.locator(".group .stages time", has_text=":").nth(1).wait_for()
    assert page.locator(".stages [data-state=bad]").inner_text().startswith("✕\nprepare")
    assert page.locator(".stages [data-state=now]").inner_text().startswith("●\ngo back")
    assert page.locator(".group .failure").inner_text() == "Change 4 is taken back: grpc://a2 does not answer."
    assert "TP4, cli:root has ordered it." in page.locator(".group").inner_text()


def test_what_happened_is_a_line_for_each_change_and_drawn(console: Console) -> None:
    page = show_shapes(console, shapes.view(shapes.model(shapes.group())))
    rows = page.locator("#shapes-events li")
    rows.nth(4).wait_for()
    assert [row.locator(".tag").inner_text() for row in rows.all()] == ["failed", "refused", "done", "done", "advised"]
    assert rows.first.locator(".detail").inner_text() == (
        "by the policy: a request of 120000 tokens waits for a TP4 replica; failed: grpc://a2 does not answer"
    )
    assert rows.first.locator(".right").inner_text() == "6.00\u00a0s"
    assert rows.nth(1).locator(".detail").inner_text() == "by admin-api:console: r1 runs a request of 90000 KV tokens"
    assert rows.nth(2).locator(".name").inner_text() == "host-a: TP4 → 4 × TP1"
    narrow, wide = (path.get_attribute("d") for path in page.locator(".shape-area").all())
    # Four rows of a narrow replica each, before and after the wide one, which has all of them.
    assert (narrow.count("M"), wide.count("M")) == (8, 1)
    assert page.locator(".group .mark-bad").count() == 1
    said = page.locator(".group .chart-said").inner_text()
    assert re.search(r"TP4 · .* 4 × TP1 · .* change 3 failed$", said), said
    assert page.locator("#shapes-totals").inner_text() == "changes so far: 2 done, 1 failed; orders refused: 1"


def test_a_loss_that_no_change_tells_of_is_drawn_where_a_change_failed_of_it(console: Console) -> None:
    page = show_shapes(console, shapes.view(shapes.model(shapes.group(shape=(2, 1, 1)))))
    said = page.locator(".group .chart-said")
    said.filter(has_text="change 3 failed").wait_for()
    assert re.search(r"TP4 · .* 4 × TP1 · .*:46 TP2 \+ 2 × TP1 · .*:46 change 3 failed$", said.inner_text())


def test_events_are_asked_for_once_a_change_has_gone_on(console: Console) -> None:
    """The history is read when a change has gone on, not with each snapshot."""
    page = show_shapes(console, shapes.view(shapes.model(shapes.group(change=shapes.change("preparing")))))
    page.locator(".group").wait_for()
    read = page.evaluate("""(() => {
      let times = 0;
      const { change } = shownLive.shapes.models[0].groups[0];
      readPage = () => { times += 1; };
      return ['preparing', 'transforming', 'transforming', 'aborting'].map(phase => {
        change.phase = phase;
        showPage();
        return times;
      });
    })()""")
    assert read == [0, 1, 1, 2]


def test_a_shape_is_chosen_and_ordered(console: Console) -> None:
    group = shapes.group(HOSTILE)
    page = show_shapes(console, shapes.view(shapes.model(group)), events=())
    answer(console, "/admin/reshape/choices", {"plans": [plan(4), plan(2, 1, 1, refused=f"no room {HOSTILE}")]})
    taken: list[dict[str, Any]] = []

    def take(route: Any) -> None:
        taken.append(json.loads(route.request.post_data))
        if len(taken) == 1:
            error = {"message": "shape: host-a cannot have it: no room", "param": "shape"}
            route.fulfill(status=400, content_type="application/json", body=json.dumps({"error": error}))
        else:
            route.fulfill(status=200, content_type="application/json", body='{"controller": "host-7:4711"}')

    page.route("**/admin/reshape/apply", take)
    page.get_by_role("button", name="Change the shape of").click()
    select = page.get_by_label("Shape", exact=True)
    page.get_by_text("It costs 1.2 GPU seconds.").wait_for()
    assert select.locator("option").all_inner_texts() == ["TP4", "TP2 + 2 × TP1, refused now"]
    select.select_option(index=1)
    assert "It would be refused now: no room" in page.locator("#choice-note").inner_text()
    page.get_by_role("button", name="Change", exact=True).click()
    page.get_by_text("That failed: shape: host-a cannot have it: no room").wait_for()
    select.select_option(index=0)
    page.get_by_role("button", name="Change", exact=True).click()
    page.get_by_text("It is ordered; “What happened” says").wait_for()
    assert taken == [{"model": shapes.MODEL, "group": HOSTILE, "shape": shape} for shape in ([2, 1, 1], [4])]
    assert page.evaluate("window.ran") is None


def test_what_is_advised_is_ordered(console: Console) -> None:
    page = show_shapes(console, shapes.view(shapes.model(shapes.group(), mode="advise", advice=shapes.advice())))
    words = (
        "host-a would go 4 × TP1 → TP4: a request of 120000 tokens waits for a TP4 replica. It costs 1.2 GPU seconds."
    )
    assert page.locator("#shapes-advice").inner_text() == words
    assert page.locator("#shapes-mode").inner_text() == "advised only"
    assert "Long requests that wait: 3, the first for 4\u00a0s" in page.locator("#shapes-demand").inner_text()
    bodies: list[str] = []

    def take(route: Any) -> None:
        bodies.append(route.request.post_data)
        route.fulfill(status=200, content_type="application/json", body='{"controller": ""}')

    page.route("**/admin/reshape/apply", take)
    page.get_by_role("button", name="Make this change").click()
    page.get_by_role("dialog", name="Change the shape of host-a?").wait_for()
    assert page.locator("#ask-choice").is_hidden()
    page.get_by_role("button", name="Change", exact=True).click()
    page.get_by_text("no controller acts now: it begins if one does within 30 s").wait_for()
    assert json.loads(bodies[0]) == {"model": shapes.MODEL, "group": "host-a", "shape": [4]}


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (
            404,
            {"error": {"message": "The model has no group 'host-a'."}},
            "That failed: The model has no group 'host-a'.",
        ),
        (401, {"error": {"message": "This key is not the admin key."}}, "That failed: This key is not the admin key."),
        (403, "<html>", "That failed: the admin API answers 403"),
        (503, {"error": {"message": "The store does not answer."}}, "That failed: The store does not answer."),
        (200, {"plans": []}, "It can have no other shape."),
    ],
)
def test_shapes_that_cannot_be_asked_for_are_said(console: Console, status: int, body: Any, said: str) -> None:
    page = show_shapes(console, shapes.view(shapes.model(shapes.group())))
    answer(console, "/admin/reshape/choices", body, status)
    page.get_by_role("button", name="Change the shape of host-a").click()
    page.get_by_text(said).wait_for()
    assert page.get_by_role("button", name="Change", exact=True).is_disabled()
    page.keyboard.press("Escape")
    assert page.locator("#ask").is_hidden()


@pytest.mark.parametrize("status", [401, 403, 503])
def test_without_its_history_the_page_says_so_and_has_all_else(console: Console, status: int) -> None:
    show_shapes(console, shapes.view(shapes.model(shapes.group())), "")
    answer(console, "/admin/reshape/history", {"error": {"message": "no"}}, status)
    with console.page.expect_response(re.compile("/admin/reshape/history")):
        console.page.evaluate(f"location.hash = {PAGE!r}")
    console.page.locator("#shapes-events-nothing", has_text="Not known at the moment.").wait_for()
    assert console.page.locator(".group .chart-said").inner_text() == "4 × TP1 all the time"


def test_a_controller_that_is_gone_is_said(console: Console) -> None:
    view = shapes.view(shapes.model(shapes.group()), controller="", age_seconds=34.0)
    page = show_shapes(console, view)
    words = "No controller acts now: this was told 34\u00a0s ago. Replicas serve as they are."
    assert page.locator("#shapes-controller").inner_text() == words
    page.get_by_role("link", name="All models").click()
    assert page.locator("#shapes-state").inner_text() == words


def test_before_anything_is_told(console: Console) -> None:
    empty = shapes.model(demand=None, mode="off")
    page = show_shapes(console, shapes.view(empty, controller="", age_seconds=None), events=())
    page.get_by_text("No controller acts now: nothing was told yet.").first.wait_for()
    page.get_by_text("No worker reports the demand of this model.").wait_for()
    assert page.locator("#shapes-groups-nothing").inner_text() == "Not known at the moment."
    page.get_by_text("No shape has been changed yet.").wait_for()
    assert page.locator("#shapes-advice").inner_text().startswith("Nothing is decided: the mode is off.")
    assert page.locator("#shapes-page button:visible").count() == 0


def test_groups_that_are_gone_or_cannot_change(console: Console) -> None:
    gone = shapes.group(
        method=None,
        widths=(),
        members=(),
        problem="none of its replicas can be reached",
        held="none of its replicas can be reached",
    )
    unknown = shapes.group("narrow/wide", method="relaunch", undecided="no replica of pool wide was ever seen")
    failed = shapes.change("failed", ended=shapes.NOW - 100, failure="grpc://a2 does not answer")
    cools = shapes.group("host-c", change=failed, held="the next one waits for 20 s: grpc://a2 does not answer")
    page = show_shapes(console, shapes.view(shapes.model(gone, unknown, cools)))
    first, second, third = page.locator(".group").all()
    assert first.locator(".failure").inner_text() == "None of its replicas can be reached."
    assert first.get_by_role("button").count() == 0
    assert second.locator(".strip").get_attribute("aria-label") == "TP1, TP1, TP1, TP1"
    assert "Nothing is decided of it: no replica of pool wide was ever seen." in second.inner_text()
    assert third.inner_text().count("grpc://a2 does not answer") == 1, "it is said once"
    page.evaluate("location.hash = '#shapes/other'")
    page.get_by_text("The shapes of no such model change.").wait_for()
    assert page.locator("#shapes-page .heading").first.inner_text().strip() == "other"


def test_while_the_store_does_not_answer_nothing_is_known(console: Console) -> None:
    page = show_shapes(console, None)
    page.locator("#shapes-none", has_text="Not known at the moment.").wait_for()
    assert page.locator("#shapes-body").is_hidden()
    page.evaluate("location.hash = ''")
    page.locator("#fleet").wait_for()
    assert page.locator("#shapes").is_hidden()
    page.evaluate("location.hash = '#constructor/x'")
    assert page.locator("#fleet").is_visible()


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_many_groups_and_long_names_fit(browser: Any, site: Stack, width: int) -> None:
    console = Console(browser, site, width)
    long = "g" * 200
    change = shapes.change("aborting", group=long, failure="x" * 300, actor=f"cli:{'u' * 200}")
    groups = [shapes.group(long, (1,) * 16, change=change, undecided="p" * 300)]
    groups += [shapes.group(f"host-{number:02}", (4, 2, 1, 1)) for number in range(62)]
    groups.append(shapes.group("host-99", problem="GPU 1 belongs to no replica"))
    model = msgspec.structs.replace(shapes.model(*groups, advice=shapes.advice()), model="m" * 200)
    page = show_shapes(console, shapes.view(model), "")
    page.get_by_text("56 more are not shown here.").wait_for()
    assert page.locator("#shapes-cards .strip").count() == 8
    wide = """[...document.querySelectorAll('main *')].filter(e => e.getClientRects().length &&
      !e.closest('.scroll, .unseen, .strip') &&
      e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(e => e.className || e.tagName)"""
    assert page.evaluate(wide) == []
    page.get_by_role("link", name="Details of the shapes").click()
    page.locator(".group").nth(63).wait_for(state="attached")
    assert page.evaluate(wide) == []
    beyond = """[...document.querySelectorAll('.group *')].filter(e => e.getClientRects().length &&
      e.getBoundingClientRect().right > e.closest('.group').getBoundingClientRect().right + 1).map(e => e.className)"""
    assert page.evaluate(beyond) == []
    assert page.locator(".group h4").nth(1).inner_text() == "host-99", "those with news come first"
    assert page.locator("#shapes-groups").get_attribute("tabindex") == "0", "the keyboard scrolls it"
    console.close()


def test_a_real_group_is_changed_from_the_page(browser: Any, tmp_path: Path, members: list[MemberProcess]) -> None:
    grouped = ReshapedSite(tmp_path, members, mode="off")
    try:
        console = Console(browser, grouped.stack)
        page = console.live()
        page.get_by_role("link", name=f"Details of the shapes of {MODEL}").click()
        page.get_by_text("4 × TP1 all the time").wait_for()
        page.get_by_role("button", name=f"Change the shape of {GROUP}").click()
        page.get_by_label("Shape", exact=True).select_option(label="TP4")
        page.get_by_role("button", name="Change", exact=True).click()
        page.get_by_text("It is ordered; “What happened” says").wait_for()
        page.get_by_role("button", name="Close").click()
        page.locator(".group .shape", has_text=re.compile("^TP4$")).wait_for()
        page.locator("#shapes-events li .tag", has_text="done").wait_for()
        assert page.locator("#shapes-events .detail").inner_text() == "admin-api:console has ordered it"
        grouped.wait(4)
        console.close()
    finally:
        grouped.stack.close()
